"""Which format a record is in, judged by its shape, with how sure that is."""

from __future__ import annotations

from typing import Final, NamedTuple

from stream_guard import EVENT_KINDS, Json
from stream_guard_formats.reading import object_at

_SESSION_LINES: Final = ("summary", "file-history-snapshot", "queue-operation", "pr-link")
# Names that only one format has at the top of its records: all of a group must be there.
_MARKS: Final[tuple[tuple[tuple[str, ...], str, float], ...]] = (
    (("specversion", "type", "source"), "cloudevents", 1.0),
    (("resourceSpans",), "otlp-json", 1.0),
    (("resourceLogs",), "otlp-json", 1.0),
    (("trace", "observations"), "langfuse", 1.0),
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
)


class Guess(NamedTuple):
    """A format, and how sure it is that a record is in it: 1 is certain, 0 is not at all."""

    name: str
    confidence: float


NOTHING: Final = Guess("", 0.0)


def detect(data: Json) -> Guess:
    """Return the format a parsed record is most likely in."""
    if isinstance(data, list):
        spans = bool(data) and isinstance(data[0], dict) and "span_attributes" in data[0]
        return Guess("openinference", 0.9) if spans else _by_messages(data)
    if not isinstance(data, dict):
        return NOTHING
    return next((Guess(form, sure) for names, form, sure in _MARKS if all(name in data for name in names)), None) or (
        _by_parts(data)
    )


def _by_parts(data: dict[str, Json]) -> Guess:
    """Look at what stands below the top of a record."""
    if data.get("kind") in EVENT_KINDS and "session_id" in data:
        return Guess("native", 1.0)
    if "resourceSpans" in object_at(data, "traces") or "resourceLogs" in object_at(data, "logs"):
        return Guess("otlp-json", 1.0)
    if data.get("type") in _SESSION_LINES:
        return Guess("claude-code", 0.8)
    for holder in (data, object_at(data, "request"), object_at(data, "values")):
        if isinstance(messages := holder.get("messages"), list):
            return _by_messages(messages)
    return NOTHING


def _by_messages(messages: list[Json]) -> Guess:
    """Tell conversations apart by how their messages are written; plain ones are the same in all of them."""
    plain = False
    for message in messages:
        if not isinstance(message, dict):
            return NOTHING
        if message.get("lc") == 1 or message.get("type") in ("human", "ai", "AIMessageChunk"):
            return Guess("langchain", 0.9)
        if message.get("role") == "tool" or message.get("tool_calls"):
            return Guess("openai-chat", 0.9)
        content = message.get("content")
        if isinstance(content, list) and any(_is_anthropic(block) for block in content):
            return Guess("anthropic", 0.9)
        plain = plain or isinstance(message.get("role"), str)
    return Guess("openai-chat", 0.5) if plain else NOTHING


def _is_anthropic(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") in ("tool_use", "tool_result", "thinking")
