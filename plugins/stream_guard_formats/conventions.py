"""Attributes of spans under every known naming convention: three of GenAI, OpenInference, and the Vercel AI SDK."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from stream_guard import Json
from stream_guard_formats.messages import unpack
from stream_guard_formats.reading import number_at, object_at, text_at
from stream_guard_formats.spans import Span

# Attributes that name the conversation, best first. Without any of them the id of the trace is used.
SESSION_NAMES: Final = (
    "session_id",
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "thread_id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "langgraph.thread_id",
)
_SORTS: Final[dict[str, Literal["llm", "tool", "agent"]]] = {
    "LLM": "llm",
    "TOOL": "tool",
    "AGENT": "agent",
    "chat": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "completion": "llm",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "create_agent": "agent",
    "tool": "tool",
    "agent": "agent",
    "ai.generateText.doGenerate": "llm",
    "ai.streamText.doStream": "llm",
    "ai.toolCall": "tool",
}
_SORT_NAMES: Final = (
    "openinference.span.kind",
    "gen_ai.operation.name",
    "traceloop.span.kind",
    "llm.request.type",
    "ai.operationId",
)
_INPUTS: Final = ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt.messages")
_OUTPUTS: Final = ("gen_ai.output.messages", "gen_ai.completion", "ai.response.text")
_ARGUMENTS: Final = ("gen_ai.tool.call.arguments", "input.value", "ai.toolCall.args", "traceloop.entity.input", "input")
_RESULTS: Final = ("gen_ai.tool.call.result", "output.value", "ai.toolCall.result", "traceloop.entity.output", "output")
_TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
_CALL_IDS: Final = ("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id")
_MODELS: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id")
_USAGE: Final = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
}


class RawSpan(NamedTuple):
    """A span as it was sent, in either encoding of OTLP. Its attributes are not interpreted yet."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: float | None
    end: float | None
    attributes: dict[str, Json]
    failed: bool = False
    events: tuple[tuple[str, dict[str, Json]], ...] = ()


def read_span(raw: RawSpan) -> Span:
    """Return the span with its attributes interpreted."""
    attributes = raw.attributes
    sort = sort_of(attributes)
    if sort == "llm":
        inputs, outputs = _messages(raw)
    else:
        inputs, outputs = _first(attributes, _ARGUMENTS), _first(attributes, _RESULTS)
    names = _TOOL_NAMES if sort == "tool" else ("gen_ai.agent.name", "agent.name", "traceloop.entity.name")
    return Span(
        span_id=raw.span_id,
        parent_id=raw.parent_id,
        sort=sort,
        name=text_at(attributes, *names) or raw.name,
        start=raw.start,
        end=raw.end,
        inputs=inputs,
        outputs=outputs,
        call_id=text_at(attributes, *_CALL_IDS),
        failed=raw.failed or "error.type" in attributes,
        model=text_at(attributes, *_MODELS),
        usage=_usage(attributes),
        stop_reason=_stop_reason(attributes),
    )


def sort_of(attributes: dict[str, Json]) -> Literal["llm", "tool", "agent", "other"]:
    """Return whether a span is a call to a model, a call of a tool, an agent, or something else."""
    for name in _SORT_NAMES:
        value = attributes.get(name)
        if isinstance(value, str) and value in _SORTS:
            return _SORTS[value]
    return "other"


def session_of(attributes: dict[str, Json]) -> str:
    """Return the id of the conversation that a span names, or an empty text."""
    return text_at(attributes, *SESSION_NAMES)


def _messages(raw: RawSpan) -> tuple[Json, Json]:
    """Return the messages to the model and its answer, from the attributes or the events that hold them."""
    attributes = raw.attributes
    inputs = (
        _first(attributes, _INPUTS)
        or unflatten(attributes, "llm.input_messages.")
        or unflatten(attributes, "gen_ai.prompt.")
    )
    outputs = (
        _first(attributes, _OUTPUTS)
        or unflatten(attributes, "llm.output_messages.")
        or unflatten(attributes, "gen_ai.completion.")
    )
    if calls := attributes.get("ai.response.toolCalls"):
        outputs = [outputs, unpack(calls)]
    if raw.events and inputs is None and outputs is None:
        inputs, outputs = messages_in_events(raw.events)
    return inputs or None, outputs or None


def messages_in_events(events: Iterable[tuple[str, dict[str, Json]]]) -> tuple[list[Json] | None, list[Json] | None]:
    """Return the messages to the model and its answer, where each message is an event of the span or a log record."""
    inputs: list[Json] = []
    outputs: list[Json] = []
    for name, body in events:
        role = name.removeprefix("gen_ai.").removesuffix(".message")
        if name == "gen_ai.choice":
            outputs.append({"role": "assistant"} | (object_at(body, "message") or body))
        elif role in ("user", "assistant", "tool"):
            inputs.append({"role": role} | ({"tool_call_id": body.get("id")} if role == "tool" else {}) | body)
    return inputs or None, outputs or None


def unflatten(attributes: Mapping[str, Json], prefix: str) -> list[Json]:
    """Return the list of messages that was flattened into ``prefix0.a.b``, ``prefix1.a.b`` and so on."""
    root: dict[str, Json] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            *path, last = name[len(prefix) :].split(".", 12)
            inner = root
            for step in path:
                below = inner.setdefault(step, {})
                inner = below if isinstance(below, dict) else {}
            inner[last] = value
    return [_unwrap_message(item) for item in _items(root)]


def _unwrap_message(item: Json) -> Json:
    """Return a message without the wrappers that flattening puts around its parts."""
    message = item.get("message", item) if isinstance(item, dict) else item
    if not isinstance(message, dict):
        return message
    message = dict(message)
    if isinstance(contents := message.pop("contents", None), dict):
        message["content"] = [object_at(part, "message_content") for part in _items(contents) if isinstance(part, dict)]
    if isinstance(calls := message.get("tool_calls"), dict):
        message["tool_calls"] = [
            object_at(call, "tool_call") or call for call in _items(calls) if isinstance(call, dict)
        ]
    return message


def _items(numbered: dict[str, Json]) -> list[Json]:
    """Return the values whose keys are numbers, in their order."""
    numbers = sorted(int(name) for name in numbered if name.isascii() and name.isdigit() and len(name) < 10)
    return [numbered[str(number)] for number in numbers if str(number) in numbered]


def _first(attributes: dict[str, Json], names: Iterable[str]) -> Json:
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)


def _usage(attributes: dict[str, Json]) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for field, names in _USAGE.items():
        number = next((value for name in names if (value := number_at(attributes, name)) is not None), None)
        if number is not None:
            found[field] = int(number)
    return found or None


def _stop_reason(attributes: dict[str, Json]) -> str:
    reasons = attributes.get("gen_ai.response.finish_reasons", attributes.get("ai.response.finishReason"))
    first = reasons[0] if isinstance(reasons, list) and reasons else reasons
    return first[:100] if isinstance(first, str) else ""
