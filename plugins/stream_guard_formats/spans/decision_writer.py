"""What guards, approvers and evaluators said, and what a person wrote, where spans of their own tell it."""

from __future__ import annotations

from stream_guard_formats.spans.event_context import SpanTelling
from stream_guard_formats.spans.raw_spans import Span


class DecisionTelling:
    """Tells decisions about calls, and prompts."""

    def __init__(self, telling: SpanTelling) -> None:
        self._telling = telling
        self._conversation, self._history, self._tree = telling.conversation, telling.history, telling.tree

    def add(self, span: Span, target: Span) -> None:
        """Add what a guard, a person or an evaluator said, as a decision about the call it is about."""
        decision = span.decision
        if decision is None:
            return
        around = target if target.sort == "tool" else self._tree.tool_around(span)
        call_id = decision.call_id or (around.call_id or around.span_id if around is not None else "")
        tool = decision.tool or (around.name if around is not None else "")
        header = self._telling.header(span, span.start)
        if call_id and self._telling.is_told("\n".join(("d", call_id, decision.action, *decision.rule_ids))):
            return
        told = call_id in self._history.calls or self._history.count_of(f"r{call_id}") > 0
        if tool and decision.action != "allow" and not told and target.sort != "tool":
            # What is held back may never run: nothing else tells of the attempt.
            block = {"id": call_id, "name": tool, "input": {}}
            self._telling.announce([block])
            self._conversation.call(["held back", call_id], block, **header | {"captured": False})
        if decision.labels:
            header["labels"] = {**self._conversation.labels, **decision.labels}
        self._conversation.decision([span.span_id, "d"], decision.action, call_id, tool, decision.rule_ids, **header)

    def add_prompt(self, span: Span) -> None:
        """Add what a person wrote. Spans and log records both tell it, and each of them as often as it was written."""
        text = span.inputs if isinstance(span.inputs, str) else ""
        channel = f"p{'log' if span.end is None else 'span'} {text}"
        self._history.add_message(channel)
        key = f"u{text}"
        if self._history.count_of(channel) > self._history.count_of(key):
            self._history.add_message(key)
            header = self._telling.header(span, span.start) | {"captured": span.inputs is not None}
            self._conversation.user(key, text, **header)
