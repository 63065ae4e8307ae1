"""The context in which spans become events: the conversation, its history, and the spans around each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stream_guard import Json
from stream_guard_formats.conversation import Conversation
from stream_guard_formats.spans.call_views import args_digest
from stream_guard_formats.spans.conversation_history import AnnouncedCall, ConversationHistory
from stream_guard_formats.spans.raw_spans import Span
from stream_guard_formats.spans.span_tree import SpanTree

# A trace may announce any number of calls and answer none of them.
_MAX_OPEN_CALLS: Final = 256


class EventContext:
    """The conversation that gets the events, its history, and the spans of the trace. All writers share it."""

    def __init__(self, conversation: Conversation, history: ConversationHistory, tree: SpanTree) -> None:
        self.conversation = conversation
        self.history = history
        self.tree = tree
        self.outputs: dict[str, str] = {}  # results that were sent to a model, by call id

    def header(self, span: Span, time: float | None) -> dict[str, Any]:
        """Return the time and the agent of a span's events. An agent inside another has a run of its own."""
        agents = self.tree.agents_around(span)
        if span.remote:
            agents = [span, *agents]
        header: dict[str, Any] = {"time": time}
        if not agents and not span.agent and not span.run_id:
            return header
        if agents or span.agent:
            header["agent"] = agents[0].agent[:200] if agents else span.agent
        if len(agents) > 1:
            header["run_id"] = agents[0].span_id
            header["agent_path"] = tuple(agent.agent[:200] for agent in reversed(agents[1:]))
        if span.run_id:
            header |= {"run_id": span.run_id, "agent": header.get("agent") or "sub-agent"}
        return header

    def note_emitted(self, key: str) -> bool:
        """Note that a view of this becomes an event. Return whether another view did before."""
        before = self.history.count_of(key) > 0
        self.history.add_message(key)
        return before

    def announce(self, calls: Sequence[dict[str, Json]]) -> None:
        """Note calls that have no result yet."""
        history = self.history
        for block in calls:
            call_id = block["id"]
            # The span of the call may have come before the answer that announces it.
            if call_id and history.take(f"span before {call_id}"):
                continue
            history.open.append(AnnouncedCall(call_id, block["name"], args_digest(block["input"])))
        del history.open[:-_MAX_OPEN_CALLS]
        history.calls |= {block["id"]: True for block in calls}
