"""Writes the decisions of guards, approvers and evaluators, and the prompts of persons, from spans of their own."""

from __future__ import annotations

from stream_guard_formats.spans.event_context import EventContext
from stream_guard_formats.spans.raw_spans import Span


class DecisionWriter:
    """Adds decisions about calls, and prompts, to a conversation."""

    def __init__(self, context: EventContext) -> None:
        self._context = context
        self._conversation, self._history, self._tree = context.conversation, context.history, context.tree

    def add(self, span: Span, target: Span) -> None:
        """Add the decision of a guard, a person or an evaluator about a call."""
        decision = span.decision
        if decision is None:
            return
        around = target if target.sort == "tool" else self._tree.tool_around(span)
        call_id = decision.call_id or (around.call_id or around.span_id if around is not None else "")
        tool = decision.tool or (around.name if around is not None else "")
        header = self._context.header(span, span.start)
        if call_id and self._context.note_emitted("\n".join(("d", call_id, decision.action, *decision.rule_ids))):
            return
        is_known = call_id in self._history.calls or self._history.count_of(f"r{call_id}") > 0
        if tool and decision.action != "allow" and not is_known and target.sort != "tool":
            # A call that is held back may never run, so no other span shows the attempt.
            block = {"id": call_id, "name": tool, "input": {}}
            self._context.announce([block])
            self._conversation.call(["held back", call_id], block, **header | {"captured": False})
        if decision.labels:
            header["labels"] = {**self._conversation.labels, **decision.labels}
        self._conversation.decision([span.span_id, "d"], decision.action, call_id, tool, decision.rule_ids, **header)

    def add_prompt(self, span: Span) -> None:
        """Add the prompt of a person, once, although spans and log records both report it."""
        text = span.inputs if isinstance(span.inputs, str) else ""
        channel = f"p{'log' if span.end is None else 'span'} {text}"
        self._history.add_message(channel)
        key = f"u{text}"
        if self._history.count_of(channel) > self._history.count_of(key):
            self._history.add_message(key)
            header = self._context.header(span, span.start) | {"captured": span.inputs is not None}
            self._conversation.user(key, text, **header)
