"""Inspect's eval logs: samples with what happened in them, event by event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from stream_guard import Event, GateDecision, Json, JsonDecoder, Record
from stream_guard_formats.chat.openai_chat import add_message
from stream_guard_formats.conversation import Conversation, derived_session, label, text_of
from stream_guard_formats.reading import as_object, first_object, has_fields, object_at, objects_in, seconds, text_at
from stream_guard_formats.spans.raw_spans import Span
from stream_guard_formats.spans.span_reader import SpanReader

_DECISIONS: Final[dict[str, Literal["allow", "pause", "block", "terminate_session"]]] = {
    "approve": "allow",
    "modify": "allow",
    "escalate": "pause",
    "reject": "block",
    "terminate": "terminate_session",
}
_ATTACHMENT: Final = "attachment://"
_DEEPEST: Final = 50


class InspectDecoder(JsonDecoder):
    """Reads a log with ``samples``, one sample, or its events. Every sample is a session.

    The events of a sample hold all that happened; its messages are read only where it has none. Contents that the log
    keeps apart as attachments are put back.
    """

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is a log, or a sample with its events."""
        if has_fields(data, "eval", "samples"):
            return 1.0
        return 0.9 if isinstance(data, dict) and "event" in first_object(data.get("events")) else 0.0

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the samples, one after the other, or raise DecodeError."""
        log = as_object(data, "an Inspect log")
        samples = objects_in(log, "samples", "samples") if "samples" in log else [log]
        run = object_at(log, "eval")
        labels = {"scenario": label(text_at(run, "task"))} if text_at(run, "task") else None
        events: list[Event] = []
        for number, sample in enumerate(samples):
            names = [text_at(run, "eval_id", "run_id"), text_at(sample, "id"), text_at(sample, "epoch")]
            session_id = text_at(sample, "uuid") or "/".join(name for name in names if name)[:512]
            session_id = session_id or derived_session(record.value, str(number))
            events += self._sample(sample, Conversation(session_id, labels=labels))
        return events

    def _sample(self, sample: dict[str, Json], conversation: Conversation) -> list[Event]:
        attachments = {name: text for name, text in object_at(sample, "attachments").items() if isinstance(text, str)}
        happened = list(_walk(objects_in(sample, "events", "events"), ""))
        spans = [span for event, parent in happened if (span := _span(event, parent, attachments)) is not None]
        if not any(span.sort == "llm" for span in spans):
            for message in objects_in(sample, "messages", "messages"):
                add_message(conversation, _message(message, attachments), strict_keys=self.strict_keys)
            return conversation.events
        events = SpanReader(conversation).read(spans)
        decided = [event for event, _ in happened if event.get("event") == "approval"]
        return _put_in(events, [_decision(event, conversation) for event in decided])


def _walk(events: Sequence[dict[str, Json]], parent: str, depth: int = 0) -> Iterator[tuple[dict[str, Json], str]]:
    """Yield the events, those inside a tool's event too, each with the span around it."""
    for number, event in enumerate(events):
        above = text_at(event, "span_id", "parent_id") or parent
        yield event, above
        if depth < _DEEPEST and event.get("event") in ("tool", "subtask"):
            inside = text_at(event, "uuid", "id") or f"{parent}.{number}"
            yield from _walk(objects_in(event, "events", "events"), inside, depth + 1)


def _span(event: dict[str, Json], parent: str, attachments: dict[str, str]) -> Span | None:
    kind = event.get("event")
    start, end = seconds(event.get("timestamp")), seconds(event.get("completed"))
    if kind == "span_begin":
        sort: Literal["agent", "other"] = "agent" if event.get("type") == "agent" else "other"
        above = text_at(event, "parent_id")[:200]
        return Span(text_at(event, "id")[:200], above, sort, text_at(event, "name"), start, start)
    identity = text_at(event, "uuid") or f"{kind}:{event.get('timestamp')}:{text_at(event, 'id')}"
    if kind == "model":
        output = object_at(event, "output")
        choices = objects_in(output, "choices", "choices")
        failed = bool(event.get("error") or output.get("error"))
        inputs = [_message(message, attachments) for message in objects_in(event, "input", "messages")]
        return Span(
            span_id=identity[:200],
            parent_id=parent[:200],
            sort="llm",
            start=start,
            end=end,
            inputs=inputs,
            outputs=[_message(object_at(choice, "message"), attachments) for choice in choices[:1]],
            failed=failed,
            error=text_of(event.get("error") or output.get("error"))[:1000],
            model=text_at(output, "model") or text_at(event, "model"),
            usage=output.get("usage"),
            stop_reason="error" if failed else text_at(choices[0], "stop_reason") if choices else "",
        )
    if kind != "tool":
        return None
    error = object_at(event, "error")
    result = _put_back(event.get("result"), attachments)
    return Span(
        span_id=identity[:200],
        parent_id=parent[:200],
        sort="tool",
        name=text_at(event, "function"),
        start=start,
        end=end,
        inputs=event.get("arguments"),
        outputs=text_at(error, "message") if error else text_of(result) or result,
        call_id=text_at(event, "id")[:512],
        failed=bool(error) or event.get("failed") is True,
    )


def _message(message: dict[str, Json], attachments: dict[str, str]) -> dict[str, Json]:
    """Return a message in the words of chats: tools have their names in ``function``, and errors are objects."""
    said: dict[str, Json] = {"role": message.get("role"), "content": _put_back(message.get("content"), attachments)}
    calls = [
        {
            "id": call.get("id"),
            "type": "function",
            "function": {"name": call.get("function"), "arguments": call.get("arguments")},
        }
        for call in objects_in(message, "tool_calls", "tool calls")
    ]
    if calls:
        said["tool_calls"] = calls
    if message.get("role") == "tool":
        error = object_at(message, "error")
        said |= {"tool_call_id": message.get("tool_call_id"), "name": text_at(message, "function")}
        said |= {"status": "error", "content": text_at(error, "message") or said["content"]} if error else {}
    return said


def _put_back(value: Json, attachments: dict[str, str]) -> Json:
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if isinstance(value, list):
        return [_put_back(part, attachments) for part in value]
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return value | {"text": _put_back(value["text"], attachments)}
    return value


def _decision(event: dict[str, Json], conversation: Conversation) -> GateDecision:
    call_id = text_at(object_at(event, "call"), "id")[:512]
    return GateDecision(
        session_id=conversation.session_id,
        event_id=f"d{text_at(event, 'uuid') or call_id}"[:512],
        labels=conversation.labels,
        time=seconds(event.get("timestamp")),
        action=_DECISIONS.get(text_at(event, "decision"), "pause"),
        call_id=call_id,
    )


def _put_in(events: list[Event], decisions: list[GateDecision]) -> list[Event]:
    """Put decisions behind the events that are not later than they are."""
    merged = list(events)
    for decision in decisions:
        moment = decision.time or 0.0
        later = (place for place, event in enumerate(merged) if event.time is not None and event.time > moment)
        merged.insert(next(later, len(merged)), decision)
    return merged
