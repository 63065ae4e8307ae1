"""The format of a record, detected by its shape, with a confidence."""

from __future__ import annotations

from typing import Final, NamedTuple

from stream_guard import EVENT_KINDS, Json
from stream_guard_formats.reading import object_at
from stream_guard_formats.spans.flat_spans import is_flat_span

_SESSION_LINES: Final = ("summary", "file-history-snapshot", "queue-operation", "pr-link")
_ROLLOUT_LINES: Final = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")
_STREAM_LINES: Final = ("system", "assistant", "user", "result", "stream_event")
_OBSERVATIONS: Final = ("GENERATION", "SPAN", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "GUARDRAIL")
# Fields that only one format has at the top of its records, all of them together; the format; the confidence.
_MARKS: Final[tuple[tuple[tuple[str, ...], str, float], ...]] = (
    (("specversion", "type", "source"), "cloudevents", 1.0),
    (("resourceSpans",), "otlp-json", 1.0),
    (("resourceLogs",), "otlp-json", 1.0),
    (("trace", "observations"), "langfuse", 1.0),
    (("eval", "samples"), "inspect", 1.0),
    (("run_type", "inputs"), "langsmith", 0.95),
    (("run_type", "child_runs"), "langsmith", 0.95),
    (("id", "kind", "payload"), "agentlog", 0.95),
    (("traj",), "tau-bench", 0.95),
    (("suite_name", "messages"), "agentdojo", 0.95),
    (("user_task_id", "messages"), "agentdojo", 0.95),
    (("termination_reason", "messages"), "tau2", 0.95),
    (("episode_id", "steps"), "steps", 0.95),
    (("trace_id", "spans"), "openinference", 0.95),
    (("sessionId", "type", "uuid"), "claude-code", 0.95),
    (("sessionId", "type"), "claude-code", 0.8),
    (("lc_agent_name", "messages"), "langchain", 0.9),
    (("id", "observations"), "langfuse", 0.8),
    (("traceId", "type", "startTime"), "langfuse", 0.8),
)


class DetectedFormat(NamedTuple):
    """A format, and the confidence from 0 to 1 that a record has it."""

    name: str
    confidence: float


_UNKNOWN: Final = DetectedFormat("", 0.0)


def detect(data: Json) -> DetectedFormat:
    """Return the most likely format of a parsed record; confidence 0 where it has the shape of none."""
    if isinstance(data, list):
        return _by_items(data)
    if not isinstance(data, dict):
        return _UNKNOWN
    if data.get("kind") in EVENT_KINDS and "session_id" in data:
        return DetectedFormat("native", 1.0)
    if str(data.get("schema_version", "")).startswith("ATIF"):
        return DetectedFormat("atif", 1.0)
    marked = (DetectedFormat(form, sure) for names, form, sure in _MARKS if all(name in data for name in names))
    return next(marked, None) or _by_lines(data) or _by_parts(data)


def _by_lines(data: dict[str, Json]) -> DetectedFormat | None:
    """Detect the line of a session file by its type."""
    kind = data.get("type")
    if kind in _ROLLOUT_LINES and "payload" in data:
        return DetectedFormat("codex-rollout", 1.0 if "timestamp" in data else 0.8)
    if kind in _STREAM_LINES and "session_id" in data:
        return DetectedFormat("claude-stream-json", 0.95)
    return DetectedFormat("claude-code", 0.8) if kind in _SESSION_LINES else None


def _by_parts(data: dict[str, Json]) -> DetectedFormat:
    """Detect the format by values and by fields below the top of a record."""
    if "resourceSpans" in object_at(data, "traces") or "resourceLogs" in object_at(data, "logs"):
        return DetectedFormat("otlp-json", 1.0)
    request, response = object_at(data, "request"), object_at(data, "response")
    if "response" in (data.get("object"), response.get("object")) or ("output" in response and "input" in request):
        return DetectedFormat("openai-responses", 0.95)
    if data.get("object") == "chat.completion" or (isinstance(data.get("choices"), list) and "messages" not in data):
        return DetectedFormat("openai-chat", 0.9)
    if isinstance(events := data.get("events"), list) and events and "event" in _first(events):
        return DetectedFormat("inspect", 0.9)
    for holder in (data, request, object_at(data, "values")):
        if isinstance(messages := holder.get("messages"), list):
            return _by_messages(messages)
    return DetectedFormat("flat-spans", 0.85) if is_flat_span(data) else _UNKNOWN


def _by_items(items: list[Json]) -> DetectedFormat:
    """Detect the format of a list that is one record. A list of records has none."""
    first = _first(items)
    if "span_attributes" in first:
        return DetectedFormat("openinference", 0.9)
    if "run_type" in first:
        return DetectedFormat("langsmith", 0.95)
    if first.get("type") in _OBSERVATIONS and "traceId" in first:
        return DetectedFormat("langfuse", 0.9)
    if is_flat_span(first):
        return DetectedFormat("flat-spans", 0.85)
    return _by_messages(items)


def _first(items: list[Json]) -> dict[str, Json]:
    return items[0] if items and isinstance(items[0], dict) else {}


def _by_messages(messages: list[Json]) -> DetectedFormat:
    """Detect the format of a conversation by its messages. Plain messages look the same in all formats."""
    plain = False
    for message in messages:
        if not isinstance(message, dict) or ("role" not in message and "messages" in message):
            return _UNKNOWN
        if message.get("lc") == 1 or message.get("type") in ("human", "ai", "AIMessageChunk"):
            return DetectedFormat("langchain", 0.9)
        if message.get("role") == "tool" or message.get("tool_calls"):
            return DetectedFormat("openai-chat", 0.9)
        content = message.get("content")
        if isinstance(content, list) and any(_is_anthropic(block) for block in content):
            return DetectedFormat("anthropic", 0.9)
        plain = plain or isinstance(message.get("role"), str)
    return DetectedFormat("openai-chat", 0.5) if plain else _UNKNOWN


def _is_anthropic(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") in ("tool_use", "tool_result", "thinking")
