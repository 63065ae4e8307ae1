"""Tool calls in records that cannot be decoded: an attempt stays an attempt where its session can still be told."""

from __future__ import annotations

import json
from typing import Any, Final

import re2
import xxhash

from stream_guard.judge.model import ToolCall
from stream_guard.ports import Record

_HEAD: Final = 1_000_000  # characters of a record that are searched
_MAX_ID: Final = 512
_TEXT: Final = r'"((?:[^"\\]|\\.)*)"'
_CALL: Final = re2.compile(r'"(?:tool_calls?|tool_use|function_call)"')
_SESSION: Final = re2.compile(rf'"(?:session_id|sessionId|conversation_id|thread_id)"\s*:\s*{_TEXT}')
_TOOL: Final = re2.compile(rf'"(?:tool|tool_name)"\s*:\s*{_TEXT}')


def lost_call(record: Record, reason: str) -> ToolCall | None:
    """Return the attempt that a record tells of although it cannot be decoded; None where there is none to tell of.

    Its arguments and its time are not known. The session that is named last counts, as for every reader of JSON.
    """
    text = record.value[:_HEAD].decode("utf-8", "replace")
    if _CALL.search(text) is None:
        return None
    session_id = _last(_SESSION, text)
    if not session_id or session_id[0] == "\0" or len(session_id) > _MAX_ID:
        return None
    return ToolCall(
        session_id=session_id,
        event_id=f"~{xxhash.xxh3_64_hexdigest(record.value.strip())}",
        tool=_last(_TOOL, text)[:_MAX_ID],
        captured=False,
        contested=f"its record cannot be decoded: {reason}",
    )


def _last(pattern: Any, text: str) -> str:
    found = [match.group(1) for match in pattern.finditer(text)]
    try:
        written = json.loads(f'"{found[-1]}"') if found else ""
    except ValueError:
        return ""
    return str(written).encode("utf-8", "replace").decode()
