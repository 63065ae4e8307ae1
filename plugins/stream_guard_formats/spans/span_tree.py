"""The spans of a trace by what stands around them: which agent's a span is, and which spans are one call to a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stream_guard_formats.spans.raw_spans import Span

_MAX_DEPTH: Final = 100


class SpanTree:
    """The spans of a trace that are known. A span whose parent is not known stands alone."""

    def __init__(self, known: Sequence[Span]) -> None:
        self.spans: dict[str, Span] = {span.span_id: span for span in known}
        self._emitted = {span.span_id for span in known}
        self._outcomes: dict[str, Span] = {}  # what came of a span, by its id
        self._agents: dict[str, list[Span]] = {}  # around a span, by its parent
        self._calling_agents: set[str] = set()  # agents that call a model themselves; others only group them
        self._around_model_calls: set[str] = set()  # spans with a call to a model inside

    def add(self, spans: Sequence[Span]) -> None:
        """Add spans of the trace."""
        self.spans |= {span.span_id: span for span in spans}
        self._outcomes = {span.parent_id: span for span in self.spans.values() if span.sort == "outcome"}
        self._agents.clear()
        for span in self.spans.values():
            if span.sort == "llm":
                nearest = None
                for above in self._above(span):
                    self._around_model_calls.add(above.span_id)
                    if nearest is None and above.sort == "agent":
                        nearest = above.span_id
                        self._calling_agents.add(nearest)

    def is_model_call(self, span: Span) -> bool:
        """Whether a span is a call to a model and no span inside it, or emitted before around it, is the same call."""
        if span.sort != "llm" and not span.remote:
            return False
        if span.span_id in self._around_model_calls:
            return False
        if not self._emitted:
            return True
        around = self.model_call_around(span)
        return around is None or around.span_id not in self._emitted

    def model_call_around(self, span: Span) -> Span | None:
        """Return the span around this one that is a call to a model too: the same call, seen from outside."""
        for above in self._above(span):
            if above.sort == "llm":
                return above
            if above.sort in ("agent", "tool"):
                return None
        return None

    def with_outcome(self, span: Span) -> Span:
        """Return the span, failed if a span inside it says that it did."""
        outcome = self._outcomes.get(span.span_id)
        if outcome is None or not outcome.failed:
            return span
        return span._replace(failed=True, error=span.error or outcome.error)

    def tool_around(self, span: Span) -> Span | None:
        """Return the tool call that a span is part of."""
        return next((above for above in self._above(span) if above.sort == "tool"), None)

    def is_denied(self, tool: Span) -> bool:
        """Whether a guard or a person said no to a tool call: on its span, or on one inside it."""
        if tool.decision is not None and tool.decision.action == "block":
            return True
        return any(
            span.decision is not None and span.decision.action == "block" and self._is_inside(span, tool)
            for span in self.spans.values()
            if span.sort == "decision"
        )

    def has_outcome(self, span: Span) -> bool:
        """Whether a span inside this one says what came of it."""
        return span.span_id in self._outcomes

    def _is_inside(self, span: Span, tool: Span) -> bool:
        around = self.tool_around(span)
        return around is not None and around.span_id == tool.span_id

    def agents_around(self, span: Span) -> list[Span]:
        """Return the agents around a span that call a model themselves, the nearest first; without any, the nearest."""
        known = self._agents.get(span.parent_id)
        if known is None:
            around = [above for above in self._above(span) if above.sort == "agent"]
            known = [agent for agent in around if agent.span_id in self._calling_agents] or around[:1]
            self._agents[span.parent_id] = known
        return known

    def _above(self, span: Span) -> Iterator[Span]:
        above, passed = self.spans.get(span.parent_id), {span.span_id}
        while above is not None and above.span_id not in passed and len(passed) < _MAX_DEPTH:
            passed.add(above.span_id)
            yield above
            above = self.spans.get(above.parent_id)
