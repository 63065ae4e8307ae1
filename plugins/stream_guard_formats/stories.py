"""Exports of spans and log records become sessions: one for each conversation that is named, else for each trace."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from stream_guard import Event, Json
from stream_guard_formats.conversation import Conversation, label
from stream_guard_formats.genai import Raw, messages_of, read_span, session_of, sort_of
from stream_guard_formats.reading import text_at
from stream_guard_formats.spans import Telling

LOGGED: Final = "gen_ai."  # how the names of log records begin that tell of calls to a model
_REMEMBERED: Final = 10_000
_DETAILS: Final = "gen_ai.client.inference.operation.details"


class LogLine(NamedTuple):
    """A log record that tells of a call to a model."""

    trace_id: str
    span_id: str
    name: str
    said: dict[str, Json]
    time: float | None


class OtlpStories:
    """Tells each export for itself, at once.

    Which conversation a trace belongs to is remembered, for the last 10,000 traces: a later record may not say so.
    So are the spans whose content came in log records: the span itself, which has none, then tells nothing.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, str] = OrderedDict()
        self._in_logs: OrderedDict[str, bool] = OrderedDict()

    def tell(self, spans: Sequence[Raw], logs: Sequence[Raw], service: str) -> list[Event]:
        """Return the events of a record's spans and log records, session by session."""
        for raw in (*spans, *logs):
            if session_id := session_of(raw.attributes):
                _remember(self._sessions, raw.trace_id, session_id)
        for raw in logs:
            _remember(self._in_logs, raw.span_id, True)
        stories: dict[str, list[Raw]] = {}
        for raw in join_logs(spans, logs):
            if raw.span_id not in self._in_logs or has_content(raw):
                stories.setdefault(self._sessions.get(raw.trace_id, raw.trace_id), []).append(raw)
        events: list[Event] = []
        for session_id, raws in stories.items():
            conversation = Conversation(session_id, labels=labels_of(service))
            events += Telling(conversation).tell([read_span(raw) for raw in raws])
        return events

    def elapse(self, seconds: float) -> list[Event]:
        """Return nothing: nothing waits."""
        del seconds
        return []

    def finish(self) -> list[Event]:
        """Return nothing: nothing was held back."""
        return []


def labels_of(service: str) -> dict[str, str] | None:
    """Return the labels of all events of an export."""
    return {"service": label(service)} if service else None


def join_logs(spans: Sequence[Raw], logs: Sequence[Raw]) -> list[Raw]:
    """Return the spans with what log records say of them, and what log records say of spans that are not there."""
    said = {raw.span_id: raw.attributes for raw in logs}
    whole = [raw._replace(attributes=raw.attributes | said.pop(raw.span_id, {})) for raw in spans]
    return [*whole, *(raw for raw in logs if raw.span_id in said)]


def has_content(raw: Raw) -> bool:
    """Whether a span says what went in or what came out."""
    span = read_span(raw)
    return span.inputs is not None or span.outputs is not None


def logged_spans(logs: Iterable[LogLine]) -> Iterator[Raw]:
    """Yield, for each span that log records tell of, one span with what they say."""
    by_span: dict[tuple[str, str], list[LogLine]] = {}
    for log in logs:
        by_span.setdefault((log.trace_id, log.span_id), []).append(log)
    for (trace_id, span_id), said in by_span.items():
        yield from _logged_span(trace_id, span_id, said)


def _logged_span(trace_id: str, span_id: str, logs: Sequence[LogLine]) -> Iterator[Raw]:
    """Yield the span that log records tell of, unless they only hold what the span says itself."""
    attributes = next((log.said for log in logs if log.name == _DETAILS), None)
    if attributes is None:
        inputs, outputs = messages_of((log.name, log.said) for log in logs)
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": inputs,
            "gen_ai.output.messages": outputs,
        }
        for log in logs:
            attributes |= {name: log.said[name] for name in log.said if name.startswith(LOGGED) or name == "session.id"}
        if reason := next((text_at(log.said, "finish_reason") for log in logs if log.name == "gen_ai.choice"), ""):
            attributes["gen_ai.response.finish_reasons"] = [reason]
    filled = any(attributes.get(name) for name in ("gen_ai.input.messages", "gen_ai.output.messages"))
    times = [log.time for log in logs if log.time is not None]
    start, end = (min(times), max(times)) if times else (None, None)
    if filled and sort_of(attributes) == "llm":
        yield Raw(trace_id, span_id, "", "", start, end, attributes)


def _remember(memory: OrderedDict[str, Json], key: str, value: Json) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
