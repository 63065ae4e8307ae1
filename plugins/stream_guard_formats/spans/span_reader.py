"""Spans of one trace become events of one conversation, in time order. A message that is sent again gives no event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard import Event
from stream_guard_formats.chat.messages import may_hold_result
from stream_guard_formats.conversation import Conversation
from stream_guard_formats.spans.call_views import merge_views
from stream_guard_formats.spans.call_writer import CallWriter
from stream_guard_formats.spans.conversation_history import ConversationHistory
from stream_guard_formats.spans.decision_writer import DecisionWriter
from stream_guard_formats.spans.event_context import EventContext
from stream_guard_formats.spans.raw_spans import Span
from stream_guard_formats.spans.span_tree import SpanTree
from stream_guard_formats.spans.turn_writer import TurnWriter

# Seconds of event time. Exporters send every five seconds: records of another process may come that much later.
_WAIT_FOR_CONTENT: Final = 5.0
_WAIT_FOR_SPANS: Final = 15.0
_RANKS: Final = {"llm": 0, "tool": 1}


class SpanReader:
    """Reads the spans of one conversation.

    A call to a model may have two spans, one around the other. Only the inner one becomes events. The spans of one tool
    call become one call.

    ``history`` holds what earlier spans of the conversation became, and is updated. ``known`` are spans of the same
    trace that were read before; they only give what is around new spans.
    """

    def __init__(
        self, conversation: Conversation, history: ConversationHistory | None = None, known: Sequence[Span] = ()
    ) -> None:
        self._conversation = conversation
        self._history = history or ConversationHistory()
        conversation.count_ids(self._history.ids)
        self._tree = SpanTree(known)
        context = EventContext(conversation, self._history, self._tree)
        self._turns, self._decisions = TurnWriter(context), DecisionWriter(context)
        self._calls = CallWriter(context, self._decisions)
        self._is_prepared = False

    def missing_views(self, spans: Sequence[Span]) -> float:
        """Return how many seconds to wait for a record that probably completes the spans.

        A call to a model without content waits for log records, which may hold it. A request whose history has more
        answers than are known waits for the spans of those answers.
        """
        self._prepare(spans)
        wait = 0.0
        before = sum(self._history.turns.values())
        for span in sorted(spans, key=_sort_key):
            if span.sort == "llm" and not span.failed and not span.identity:
                inputs, outputs = self._turns.messages[span.span_id]
                if not inputs and not outputs and not span.emitted:
                    wait = max(wait, _WAIT_FOR_CONTENT)
                elif sum(message.role == "assistant" for message in inputs) > before:
                    wait = _WAIT_FOR_SPANS
                before += 1
        return wait

    def read(self, spans: Sequence[Span], sources: list[tuple[Event, str]] | None = None) -> list[Event]:
        """Return the events of the spans, sorted by time. An event without a time stays behind the one before it.

        ``sources`` is extended by each event with the id of its span.
        """
        if not self._is_prepared:
            self._prepare(spans)
        calls = {call.span.span_id: call for call in merge_views(self._tree.spans, spans)}
        for span in sorted(spans, key=_sort_key):
            if span.sort == "tool":
                if (call := calls.pop(span.span_id, None)) is not None:
                    self._calls.add(call)
            elif self._tree.is_model_call(span):
                self._turns.add(span)
            else:
                self._add_other(span)
            if sources is not None:
                sources += [(event, span.span_id) for event in self._conversation.events[len(sources) :]]
        self._history.trim()
        return by_time(self._conversation.events)

    def _prepare(self, spans: Sequence[Span]) -> None:
        self._tree.add(spans)
        self._turns.prepare(spans)
        self._is_prepared = True

    def _add_other(self, span: Span) -> None:
        if span.sort in ("retrieval", "memory"):
            self._calls.add_store(span)
        elif span.sort == "decision":
            self._decisions.add(span, span)
        elif span.sort == "prompt":
            self._decisions.add_prompt(span)
        elif isinstance(span.outputs, str | dict | list) and may_hold_result(span.outputs):
            self._turns.add_announced_results(span)


def _sort_key(span: Span) -> tuple[float, int, float, str]:
    """Return the sort key of a span. At the same moment, calls to a model come first, then tools."""
    return span.start or 0.0, _RANKS.get(span.sort, 2), span.end or 0.0, span.span_id


def by_time(events: list[Event]) -> list[Event]:
    """Return the events sorted by time. An event without a time stays behind the one before it."""
    times: list[float] = []
    for event in events:
        times.append(event.time if event.time is not None else times[-1] if times else 0.0)
    return [events[number] for number in sorted(range(len(events)), key=times.__getitem__)]
