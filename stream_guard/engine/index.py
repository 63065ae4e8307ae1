"""Which rules can say something about an event: by its kind, its tool and its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from stream_guard.engine.bound import Bound, Handler, overrides
from stream_guard.engine.texts import TextIndex
from stream_guard.model import Event, GateDecision, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.patterns import ToolPattern
from stream_guard.rule import Where

Entries: TypeAlias = tuple[tuple[Bound, Handler], ...]

_HANDLERS: dict[type[Event], str] = {
    UserMessage: "on_user_message",
    Turn: "on_turn",
    ToolCall: "on_tool_call",
    GateDecision: "on_decision",
    ToolResult: "on_tool_result",
}
_MEMO_LIMIT = 4096


class ByTool:
    """Rules for events that name a tool, resolved once per name."""

    __slots__ = ("_entries", "_memo")

    def __init__(self, entries: Sequence[tuple[Bound, Handler]]) -> None:
        self._entries: list[tuple[ToolPattern | None, Bound, Handler]] = [
            (bound.rule.tools(), bound, handle) for bound, handle in entries
        ]
        self._memo: dict[str, Entries] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def get(self, tool: str) -> Entries:
        """Return the rules that want to see this tool."""
        known = self._memo.get(tool)
        if known is None:
            # Names come from the agent: a stream of invented ones must not fill the memory.
            if len(self._memo) >= _MEMO_LIMIT:
                self._memo.clear()
            known = self._memo[tool] = tuple(
                (bound, handle) for pattern, bound, handle in self._entries if pattern is None or pattern.matches(tool)
            )
        return known


class Index:
    """The rules of one key, arranged by what can set them off."""

    __slots__ = ("bounds", "calls", "decisions", "ends", "results", "texts", "turns", "users")

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self.bounds = tuple(bounds)
        self.texts: dict[type[Event], TextIndex] = {}
        self.users: Entries = tuple(self._entries(UserMessage, "user"))
        self.turns: Entries = tuple(self._entries(Turn, "response"))
        self.calls = ByTool(self._entries(ToolCall, "tool_args"))
        self.decisions = ByTool(self._entries(GateDecision, None))
        self.results = ByTool(self._entries(ToolResult, "tool_result"))
        self.ends = tuple(bound for bound in bounds if bound.end is not None)

    def _entries(self, event_type: type[Event], where: Where | None) -> list[tuple[Bound, Handler]]:
        """Collect the rules to call for every event of a type; the text index takes those that wait for a text."""
        listed: list[tuple[Bound, Handler]] = []
        waiting: list[tuple[Bound, Handler]] = []
        name = _HANDLERS[event_type]
        for bound in self.bounds:
            if not overrides(bound.rule, name) and (bound.gate is None or bound.ungated is None):
                continue
            handle: Handler = getattr(bound.rule, name)
            (waiting if where in bound.texts and _may_wait(bound) else listed).append((bound, handle))
        if waiting and where is not None:
            self.texts[event_type] = TextIndex(waiting, where)
        return listed


def _may_wait(bound: Bound) -> bool:
    """Whether a rule may sleep until its text occurs.

    A gated rule with an end to judge may not: the engine has to know that the gate opened, even at a
    turn without the text. Neither may one that cannot judge events without content or clock, or that
    is limited to some tools.
    """
    gate_matters = bound.gate is not None and (bound.end is not None or bound.ungated is not None)
    return not gate_matters and bound.spec.hold is None and bound.rule.tools() is None
