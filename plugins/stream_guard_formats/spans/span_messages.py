"""The messages, documents, arguments and results that the attributes and the events of a span hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stream_guard import Json
from stream_guard_formats.chat.messages import read_messages, unpack
from stream_guard_formats.reading import number_at, object_at, text_at
from stream_guard_formats.spans.raw_spans import RawSpan

DETAILS: Final = "gen_ai.client.inference.operation.details"
_INPUTS: Final = ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt.messages", "gcp.vertex.agent.llm_request")
_OUTPUTS: Final = (
    "gen_ai.output.messages",
    "gen_ai.completion",
    "ai.response.text",
    "ai.result.text",
    "ai.response.object",
    "ai.result.object",
    "gcp.vertex.agent.llm_response",
)
_CALLS: Final = ("ai.response.toolCalls", "ai.result.toolCalls")
_FINISH_REASONS: Final = (
    "gen_ai.response.finish_reasons",
    "ai.response.finishReason",
    "ai.finishReason",
    "gen_ai.completion.0.finish_reason",
    "llm.response.finish_reason",
    "llm.response.stop_reason",
    "llm.finish_reason",
    "stop_reason",
)
_NUMBERS: Final = tuple(map(str, range(64)))
_MAX_STEPS: Final = 12  # of a flattened name; what is deeper stays flat
# Events of a span that hold the whole input or output of a call, in the first generation of names and in the current.
_CONTENT_EVENTS: Final = ("gen_ai.content.prompt", "gen_ai.content.completion", DETAILS)


def messages_of(raw: RawSpan) -> tuple[Json, Json]:
    """Return the messages to the model and its answer, from the attributes or the events that hold them."""
    attributes = raw.attributes
    if raw.events:
        for name, fields in raw.events:
            if name in _CONTENT_EVENTS:
                attributes = fields | attributes
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
    if calls := _first(attributes, _CALLS):
        outputs = [outputs, unpack(calls)]
    if raw.events and not inputs and not outputs:
        inputs, outputs = messages_in_events(raw.events)
    if not inputs and not outputs:
        inputs, outputs = attributes.get("input.value"), attributes.get("output.value")
    elif not outputs:
        outputs = _whole_answer(attributes)
    return inputs or None, outputs or None


def _whole_answer(attributes: Mapping[str, Json]) -> Json:
    """Return the answer where only the messages to the model are in attributes of their own; no answer in pieces."""
    found = unpack(attributes.get("output.value"))
    return None if isinstance(found, list) and found and isinstance(found[0], str) else found


def messages_in_events(events: Iterable[tuple[str, dict[str, Json]]]) -> tuple[list[Json] | None, list[Json] | None]:
    """Return the messages to the model and its answer, where each message is an event of the span or a log record."""
    inputs: list[Json] = []
    outputs: list[Json] = []
    for name, fields in events:
        role = name.removeprefix("gen_ai.").removesuffix(".message")
        body, written = fields, unpack(fields.get("body"))
        if isinstance(written, dict):
            # Koog: the fields of the event are one text, and each call of an answer is a choice with a number.
            body = {key: value for key, value in written.items() if key != "index"}
            if name == "gen_ai.choice":
                body.pop("role", None)
        if name == "gen_ai.choice":
            message = unpack(body.get("message"))
            shared = {key: body[key] for key in ("finish_reason", "index") if key in body}
            if isinstance(message, dict):
                outputs.append({"role": "assistant"} | message | shared)
            else:
                outputs.append({"role": "assistant", **body} | ({"content": message} if message else {}))
        elif role in ("user", "assistant", "tool"):
            content = unpack(body["content"]) if "content" in body else None
            blocks = {"content": content} if isinstance(content, list) else {}
            inputs.append({"role": role} | ({"tool_call_id": body.get("id")} if role == "tool" else {}) | body | blocks)
    return inputs or None, outputs or None


def choices_of(outputs: Json, attributes: dict[str, Json]) -> tuple[Json, Json]:
    """Return the answer, and the other choices where the model was asked for several."""
    found = outputs
    if not isinstance(found, list) or len(found) < 2 or not all(isinstance(item, dict) for item in found):
        return outputs, None
    reasons = attributes.get("gen_ai.response.finish_reasons")
    several = (
        (number_at(attributes, "gen_ai.request.choice.count") or 1) > 1
        or (isinstance(reasons, list) and len(reasons) == len(found))
        or all("finish_reason" in item for item in found)
        or len({item.get("index") for item in found}) == len(found)
    )
    return (found[:1], found[1:]) if several else (found, None)


def finish_reason_of(attributes: dict[str, Json], outputs: Json) -> str:
    """Return why the model stopped, from the span or from the first message of its answer."""
    reasons = _first(attributes, _FINISH_REASONS)
    if isinstance(reasons, str):
        reasons = unpack(reasons)
    first = reasons[0] if isinstance(reasons, list) and reasons else reasons
    if isinstance(first, str) and first:
        return first[:100]
    message = outputs[0] if isinstance(outputs, list) and outputs else outputs
    return text_at(message, "finish_reason", "finishReason", "stop_reason")[:100] if isinstance(message, dict) else ""


def documents_of(attributes: dict[str, Json]) -> list[Json] | None:
    """Return the chunks that were retrieved, each with its text where it was captured."""
    found = unpack(_first(attributes, ("gen_ai.retrieval.documents", "retrieval.documents")))
    if not isinstance(found, list):
        flat = unflatten(attributes, "retrieval.documents.")
        found = [object_at(item, "document") or item for item in flat if isinstance(item, dict)]
    if not found and attributes.get("output.value") is not None:
        found = [unpack(attributes["output.value"])]
    return [_chunk(item) for item in found] or None


def _chunk(item: Json) -> Json:
    if not isinstance(item, dict):
        return item
    text = text_at(item, "content", "text", "page_content")
    return {**{key: value for key, value in item.items() if value != text}, "text": text} if text else item


def arguments_in_messages(raw: RawSpan) -> Json:
    """Return the arguments of a tool's call that an event of its span holds."""
    for name, fields in raw.events:
        if name == "gen_ai.tool.message":
            return unpack(fields.get("content"))
        for message in read_messages(fields.get("gen_ai.input.messages")) if name == DETAILS else ():
            for call in message.calls:
                return call["input"]
    return None


def result_in_messages(raw: RawSpan) -> Json:
    """Return the result of a tool's call that an event of its span holds."""
    for name, fields in raw.events:
        if name == "gen_ai.choice":
            return unpack(fields.get("message"))
        if name == "tool.output":
            return fields.get("content", fields.get("output"))
        for message in read_messages(fields.get("gen_ai.output.messages")) if name == DETAILS else ():
            for result in message.results:
                return result.output
    return None


def unflatten(attributes: Mapping[str, Json], prefix: str) -> list[Json]:
    """Return the list of messages that was flattened into ``prefix0.a.b``, ``prefix1.a.b`` and so on."""
    root: dict[str, Json] = {}
    holders: dict[str, dict[str, Json]] = {}  # attributes of one message have the same way to them
    for name, value in attributes.items():
        if name.startswith(prefix):
            above, _, last = name.rpartition(".")
            holder = holders.get(above)
            if holder is None:
                *path, last = name[len(prefix) :].split(".", _MAX_STEPS)
                holder = root
                for step in path:
                    below = holder.setdefault(step, {})
                    holder = below if isinstance(below, dict) else {}
                if len(path) < _MAX_STEPS:
                    holders[above] = holder
            if last in holder:  # what stood there may be a holder itself
                holders.clear()
            holder[last] = value
    return [_unwrap_message(item) for item in _items(root)]


def _unwrap_message(item: Json) -> Json:
    """Return a message without the wrappers that flattening puts around its parts."""
    message = item.get("message", item) if isinstance(item, dict) else item
    if not isinstance(message, dict):
        return message
    message = dict(message)
    if isinstance(contents := message.pop("contents", None), dict):
        message["content"] = [_unwrap_part(part) for part in _items(contents) if isinstance(part, dict)]
    if isinstance(calls := message.get("tool_calls"), dict):
        message["tool_calls"] = [
            object_at(call, "tool_call") or call for call in _items(calls) if isinstance(call, dict)
        ]
    return message


def _unwrap_part(part: dict[str, Json]) -> Json:
    """Return a part of a message. A tool-use part has its call beside it."""
    content = object_at(part, "message_content")
    if answered := object_at(part, "message").get("tool_call_id"):  # BeeAI: one message has the results of all calls
        return {"type": "tool_result", "tool_use_id": answered, "content": content.get("text")}
    if call := object_at(part, "tool_call"):
        function = object_at(call, "function")
        return {
            "type": "tool_use",
            "id": call.get("id"),
            "name": function.get("name"),
            "input": function.get("arguments"),
        }
    return content


def _items(numbered: dict[str, Json]) -> list[Json]:
    """Return the values whose keys are numbers, in their order."""
    if len(numbered) <= len(_NUMBERS) and all(map(numbered.__contains__, _NUMBERS[: len(numbered)])):
        return [numbered[number] for number in _NUMBERS[: len(numbered)]]
    numbers = sorted(int(name) for name in numbered if name.isascii() and name.isdigit() and len(name) < 10)
    return [numbered[str(number)] for number in numbers if str(number) in numbered]


def _first(attributes: Mapping[str, Json], names: Iterable[str]) -> Json:
    for name in names:
        if (value := attributes.get(name)) is not None:
            return value
    return None
