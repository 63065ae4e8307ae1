"""Shadow's recordings, ``.agentlog``: JSON lines of envelopes. A request and its response become a turn."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Any, Final

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record, ToolCall, ToolResult, Turn, parse_arguments

MAX_FILES: Final = 4096  # files whose progress is remembered; the oldest is dropped
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_LONGEST_ID: Final = 200


@dataclass(slots=True)
class _FileProgress:
    """The progress in one file: its session, the request without a response, and the sessions that began."""

    session_id: str
    request: dict[str, Json] | None = None
    markers: int = 0  # metadata records; each begins a part of the session
    last: int = -1  # position of the last record: redelivered, it must not count twice


class AgentlogDecoder(JsonDecoder):
    """Reads .agentlog records in file order. A record of an unknown kind has no events.

    A response belongs to the last request without one. The session is the trace id in the first record of the file,
    else the name of the file, because the format has no other id.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is an envelope."""
        return 0.95 if isinstance(data, dict) and "id" in data and "kind" in data and "payload" in data else 0.0

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self._files: dict[str, _FileProgress] = {}

    def read(self, data: Json, record: Record) -> list[Event]:
        """Return the turn, attempt or result that the record completes, or raise DecodeError."""
        kind, payload = _envelope(data)
        progress = self._progress(record, data)
        redelivered, progress.last = record.position == progress.last, record.position
        if kind == "metadata":
            progress.markers += not redelivered
            return []
        if kind == "chat_request":
            progress.request = payload
            return []
        if kind == "chat_response":
            request, progress.request = progress.request, None
            return [Turn(**self._header(record, data, progress), request=request, response=payload)]
        return self._tool_event(kind, payload, self._header(record, data, progress))

    def _tool_event(self, kind: str, payload: dict[str, Json], header: dict[str, Any]) -> list[Event]:
        call_id = _text(payload.get("tool_call_id"))
        if kind == "tool_call":
            name = payload.get("tool_name")
            if not isinstance(name, str) or not name:
                raise DecodeError('a tool_call needs "tool_name", the name of the tool, in its payload')
            args, broken = payload.get("arguments"), False
            if isinstance(args, str):
                args, broken = parse_arguments(args, strict_keys=self.strict_keys)
            return [ToolCall(**header, tool=name, call_id=call_id, args=args, parse_error=broken)]
        if kind == "tool_result":
            failed = payload.get("is_error") is True or payload.get("error") not in (None, False, "")
            return [
                ToolResult(
                    **header,
                    call_id=call_id,
                    tool=_text(payload.get("tool_name")),
                    status="error" if failed else "ok",
                    output=payload.get("output"),
                )
            ]
        return []

    def _progress(self, record: Record, data: dict[str, Json]) -> _FileProgress:
        known = self._files.get(record.origin)
        if known is None or (record.position == 0 and known.last != 0):
            self._files.pop(record.origin, None)
            if len(self._files) >= MAX_FILES:
                del self._files[next(iter(self._files))]
            known = self._files[record.origin] = _FileProgress(_session_of(record, data))
        return known

    @staticmethod
    def _header(record: Record, data: dict[str, Json], progress: _FileProgress) -> dict[str, Any]:
        # The format's id is a digest of the payload alone: without the position, two equal answers would be one event.
        return {
            "session_id": progress.session_id,
            "event_id": f"{record.position}-{_text(data.get('id'))[7:23]}",
            "time": _time(data.get("ts")),
            "part": f"part-{progress.markers - 1}" if progress.markers > 1 else "",
        }


def _envelope(data: Json) -> tuple[str, dict[str, Json]]:
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        raise DecodeError('an .agentlog record is an object with "kind" and "payload"; --from-format may name another')
    payload = data.get("payload")
    if not isinstance(payload, dict):
        raise DecodeError('an .agentlog record needs "payload", an object; --from-format may name another format')
    return data["kind"], payload


def _session_of(record: Record, data: dict[str, Json]) -> str:
    meta = data.get("meta")
    trace = _text(meta.get("trace_id")) if isinstance(meta, dict) else ""
    name = PurePath(record.origin).name.partition(".")[0]
    return (trace or name or _text(data.get("id")) or "recording")[:_LONGEST_ID]


def _text(value: Json) -> str:
    return value[:_LONGEST_ID] if isinstance(value, str) else ""


def _time(value: Json) -> float | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise DecodeError(f'ts is {str(value)[:40]!r}; write RFC 3339 like "2026-01-31T12:00:00.000Z", or leave it out')
    try:
        return max(0.0, datetime.fromisoformat(value.upper()).timestamp())
    except (ValueError, OverflowError) as error:
        raise DecodeError(f"ts {value!r} is no date that exists: {error}") from None
