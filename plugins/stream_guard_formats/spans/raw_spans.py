"""Spans as they were sent, and spans with their attributes interpreted."""

from __future__ import annotations

from typing import Literal, NamedTuple

from stream_guard import Json
from stream_guard_formats.spans.foreign_decisions import ForeignDecision

SpanSort = Literal["llm", "tool", "agent", "retrieval", "memory", "decision", "prompt", "outcome", "other"]
SpanKind = Literal["", "client", "server"]


class RawSpan(NamedTuple):
    """A span as it was sent, in either encoding of OTLP. It is stored: new fields go to the end, with a default."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: float | None
    end: float | None
    attributes: dict[str, Json]
    failed: bool = False
    events: tuple[tuple[str, dict[str, Json]], ...] = ()
    kind: SpanKind = ""
    status_message: str = ""
    service: str = ""  # the process that it is from


class Span(NamedTuple):
    """A span with its attributes interpreted."""

    span_id: str
    parent_id: str = ""
    sort: SpanSort = "other"
    name: str = ""  # of the tool or the agent
    start: float | None = None
    end: float | None = None
    inputs: Json = None  # messages, or a tool's arguments
    outputs: Json = None  # messages, or a tool's result
    call_id: str = ""
    failed: bool = False
    model: str = ""
    usage: Json = None
    stop_reason: str = ""
    error: str = ""
    agent: str = ""  # name@version, where the span itself says whose it is
    run_id: str = ""  # where the span itself says which sub-agent's it is
    request: dict[str, Json] = {}  # what is known of a request besides its messages
    response: dict[str, Json] = {}  # what is known of a response besides its content
    identity: str = ""  # a name that all views of a call share, and no other call has
    protocol: Literal["", "mcp"] = ""
    remote: bool = False  # an agent behind a service: its span is all that is known of it
    decision: ForeignDecision | None = None
    args_digest: str = ""  # of a span that was read before
    emitted: bool = False  # it became events before
