"""Recordings written as ``.agentlog``, with ids that other readers of the format compute as well."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite

from stream_guard import Event, Json, ToolCall, ToolResult, Turn


def agentlog_lines(events: Iterable[Event]) -> Iterator[str]:
    """Yield the lines of a recording of one session: a leading metadata record, then what happened.

    A turn becomes a request and a response. User messages stand in the requests already, and decisions and
    ends have no place in the format. ValueError when the events are of more than one session.
    """
    parent: str | None = None
    session: str | None = None
    for event in events:
        if session is None:
            session = event.session_id
            line, parent = _record("metadata", {"sdk": {"name": "stream-guard"}}, event.time, None, session)
            yield line
        if event.session_id != session:
            raise ValueError(f"an .agentlog holds one session, not {session!r} and {event.session_id!r}")
        for kind, payload in _payloads(event):
            line, parent = _record(kind, payload, event.time, parent, session)
            yield line


def _payloads(event: Event) -> Iterator[tuple[str, dict[str, Json]]]:
    if isinstance(event, Turn):
        yield "chat_request", event.request or {}
        yield "chat_response", event.response
    elif isinstance(event, ToolCall):
        yield "tool_call", {"tool_name": event.tool, "tool_call_id": event.call_id, "arguments": event.args}
    elif isinstance(event, ToolResult):
        payload = {"tool_call_id": event.call_id, "output": event.output, "is_error": event.status == "error"}
        yield "tool_result", payload


def _record(
    kind: str, payload: dict[str, Json], time: float | None, parent: str | None, session: str
) -> tuple[str, str]:
    moment = datetime.fromtimestamp(time or 0.0, UTC)
    identity = record_id(payload)
    record = {
        "version": "0.1",
        "id": identity,
        "kind": kind,
        "ts": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z",
        "parent": parent,
        "meta": {"trace_id": session},
        "payload": payload,
    }
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")), identity


def record_id(payload: Json) -> str:
    """Return the id of a record: the digest of its payload's canonical form."""
    return f"sha256:{hashlib.sha256(canonical_payload(payload).encode('utf-8', 'replace')).hexdigest()}"


def canonical_payload(value: Json) -> str:
    """Return the canonical form that ids of the format are made of: composed strings, sorted keys, no exponents."""
    if isinstance(value, dict):
        composed = sorted(
            ((unicodedata.normalize("NFC", key), item) for key, item in value.items()), key=lambda pair: pair[0]
        )
        return "{" + ",".join(f"{_quoted(key)}:{canonical_payload(item)}" for key, item in composed) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical_payload, value)) + "]"
    if isinstance(value, str):
        return _quoted(unicodedata.normalize("NFC", value))
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(value: float) -> str:
    if not isfinite(value):
        return "null"
    return str(int(value)) if value == int(value) else format(Decimal(repr(value)), "f")
