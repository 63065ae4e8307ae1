"""Log records about agents, as spans: messages of a call to a model, decisions, failures, and what Claude Code logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from stream_guard import Json
from stream_guard_formats.reading import digest, number_at, text_at
from stream_guard_formats.spans.conventions import session_of, sort_of
from stream_guard_formats.spans.foreign_decisions import read_decision
from stream_guard_formats.spans.raw_spans import RawSpan
from stream_guard_formats.spans.span_messages import DETAILS, messages_in_events

GEN_AI: Final = "gen_ai."
_CLAUDE: Final = "claude_code."
_NAMES: Final = (GEN_AI, _CLAUDE, "agent.threat.")  # how the names of log records about agents begin
MESSAGES: Final = ("gen_ai.input.messages", "gen_ai.output.messages")  # of a call to a model
_EXCEPTION: Final = "gen_ai.client.operation.exception"
# What a record of Claude Code is, in the words that its spans have for it.
_CLAUDE_SORTS: Final = {
    "user_prompt": "interaction",
    "api_request": "llm_request",
    "api_error": "llm_request",
    "api_refusal": "llm_request",
    "tool_decision": "tool.blocked_on_user",
    "tool_result": "tool",
}


class AgentLogRecord(NamedTuple):
    """A log record about an agent."""

    trace_id: str
    span_id: str
    name: str
    fields: dict[str, Json]  # its attributes, and its body if that is an object
    time: float | None


def log_name(event_name: str, body: Json, attributes: dict[str, Json]) -> str:
    """Return the name of a log record, which older producers write into its attributes or its body."""
    if event_name:
        return event_name
    if isinstance(body, str) and body.startswith(_CLAUDE):
        return body[:100]
    return text_at(attributes, "event.name")


def is_about_agents(name: str) -> bool:
    """Whether a log record of this name is about what an agent did."""
    return name.startswith(_NAMES)


def trace_of_log(fields: dict[str, Json]) -> str:
    """Return what stands for the trace of a log record that has none: its session; without that, an empty text."""
    session_id = session_of(fields)
    return f"logs/{session_id}" if session_id else ""


def logged_spans(logs: Iterable[AgentLogRecord]) -> Iterator[RawSpan]:
    """Yield the spans that log records describe: one for each call to a model, and one for each other thing."""
    by_span: dict[tuple[str, str], list[AgentLogRecord]] = {}
    for log in logs:
        if log.name.startswith(_CLAUDE):
            yield from _claude_span(log)
        elif log.name in (DETAILS, "gen_ai.choice") or log.name.endswith(".message"):
            by_span.setdefault((log.trace_id, log.span_id), []).append(log)
        else:
            yield from _other_span(log)
    for (trace_id, span_id), its_logs in by_span.items():
        yield from _model_call(trace_id, span_id, its_logs)


def _model_call(trace_id: str, span_id: str, logs: Sequence[AgentLogRecord]) -> Iterator[RawSpan]:
    """Yield the span that log records describe, unless they hold no messages of a call to a model."""
    attributes = next((log.fields for log in logs if log.name == DETAILS), None)
    if attributes is None:
        inputs, outputs = messages_in_events((log.name, log.fields) for log in logs)
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": inputs,
            "gen_ai.output.messages": outputs,
        }
        for log in logs:
            shared = [name for name in log.fields if name.startswith(GEN_AI) or name == "session.id"]
            attributes |= {name: log.fields[name] for name in shared}
        if reason := next((text_at(log.fields, "finish_reason") for log in logs if log.name == "gen_ai.choice"), ""):
            attributes["gen_ai.response.finish_reasons"] = [reason]
    has_messages = any(attributes.get(name) for name in MESSAGES)
    times = [log.time for log in logs if log.time is not None]
    start, end = (min(times), max(times)) if times else (None, None)
    if has_messages and sort_of(attributes) == "llm":
        # At one moment nothing was measured: a latency of 0 would be a guess.
        yield RawSpan(trace_id, span_id, "", "", start, end if end != start else None, attributes)


def _other_span(log: AgentLogRecord) -> Iterator[RawSpan]:
    """Yield a decision or a failure, as a span inside the one that it is about."""
    if log.name == _EXCEPTION:
        fields = {"span.type": "tool.execution", "error.type": text_at(log.fields, "exception.type") or "exception"}
        fields["exception.message"] = text_at(log.fields, "exception.message")
        fields |= {name: log.fields[name] for name in ("gen_ai.conversation.id", "session.id") if name in log.fields}
    elif read_decision(log.fields, log.name) is not None:
        fields = log.fields | {"gen_ai.operation.name": "guardrail"}
    else:
        return
    name = digest(msgspec.json.encode([log.name, log.span_id, log.time, log.fields]))
    yield RawSpan(log.trace_id, f"{log.span_id}/{name}", log.span_id, log.name, log.time, None, fields)


def _claude_span(log: AgentLogRecord) -> Iterator[RawSpan]:
    sort = _CLAUDE_SORTS.get(log.name.removeprefix(_CLAUDE))
    if sort is None:
        return
    fields = log.fields | {"span.type": sort}
    took = number_at(log.fields, "duration_ms")
    start, end = log.time, None
    if took is not None and log.time is not None and sort in ("tool", "llm_request"):
        start, end = log.time - took / 1000, log.time
    identity = text_at(fields, "tool_use_id", "request_id", "prompt.id") or msgspec.json.encode(fields).decode()
    span_id = f"{sort} {digest(identity.encode())}"
    failed = log.name in ("claude_code.api_error", "claude_code.api_refusal")
    yield RawSpan(log.trace_id, span_id, "", log.name, start, end, fields, failed)
