"""Which rules to run for an event, by its kind, its tool and its text.

A plan lists its rules by what they need. A stateless rule needs only its handler. A plain rule needs its state too,
a gated one also a condition, and a full one a key, a timer or a `for`. A rule that answered ``Settled`` sleeps: later
events of that key use a plan without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from stream_guard.judge.asked_arguments import Places
from stream_guard.judge.bound import NO_STATE, BoundRule, Gate, Handler, overrides
from stream_guard.judge.key_state import Address
from stream_guard.judge.model import Event, GateDecision, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.judge.paths import When
from stream_guard.judge.rule import State, ToolFilter, Where
from stream_guard.judge.rule_loop import Gated, RuleLoop
from stream_guard.judge.texts import TextIndex
from stream_guard.judge.watched_paths import watch

Entry: TypeAlias = tuple[BoundRule, Handler]

_HANDLERS: Final[dict[type[Event], str]] = {
    UserMessage: "on_user_message",
    Turn: "on_turn",
    ToolCall: "on_tool_call",
    GateDecision: "on_decision",
    ToolResult: "on_tool_result",
}
_MEMO_LIMIT: Final = 4096
_VARIANTS: Final = 256  # plans kept for one sort of event: one for each set of sleeping rules


Ready: TypeAlias = tuple[Address, Handler, Callable[[], State] | None, BoundRule]
"""A rule for the hot path: its number, its handler, what makes a new state if it keeps one, and the rule itself."""


class GateGroup:
    """Rules behind the same condition, so that it is tested once for all of them."""

    __slots__ = ("ends", "rest", "steps")

    def __init__(self, gate: Gate, entries: Sequence[Entry]) -> None:
        simple = [(bound, handle) for bound, handle in entries if bound.only_gated]
        self.rest = tuple((bound, handle) for bound, handle in entries if not bound.only_gated)
        self.ends = tuple(bound.number for bound, _ in simple if bound.end is not None)
        stateless = [_ready(entry) for entry in simple if entry[0].stateless]
        inside = [_ready(entry) for entry in simple if not entry[0].stateless]
        outside: list[Ready] = [
            _ready((bound, bound.ungated))
            for bound, handle in simple
            if bound.ungated is not None and overrides(bound.rule, handle.__name__)
        ]
        may_open = tuple([(bound, bound.may_open) for bound, _ in entries if bound.may_open is not None])
        self.steps: Gated = (
            gate,
            tuple(stateless),
            tuple(inside),
            tuple(outside),
            may_open,
            self if self.ends or self.rest else None,
        )


def _ready(entry: Entry) -> Ready:
    bound, handle = entry
    return bound.number, handle, None if bound.stateless else bound.rule.state_type, bound


def _groups(entries: Sequence[Entry]) -> Iterator[GateGroup]:
    grouped: dict[str, list[Entry]] = {}
    for bound, handle in entries:
        grouped.setdefault(bound.gate_text, []).append((bound, handle))
    for group in grouped.values():
        gate = group[0][0].gate
        if gate is not None:
            yield GateGroup(gate, group)


class Plan:
    """The rules to run for one sort of event.

    ``mask`` has the bits of the rules that can sleep through the event, ``untimed_mask`` those that can when it has no
    time, ``waking`` those that it wakes. ``awake`` holds the plans without sleeping rules.
    """

    __slots__ = (
        "_of_tools",
        "_of_turns",
        "asked",
        "awake",
        "entries",
        "full",
        "loop",
        "mask",
        "needs_clock",
        "needs_content",
        "needs_turn",
        "owned",
        "reads_args",
        "texts",
        "twins",
        "untimed_mask",
        "waking",
        "watch",
    )

    def __init__(
        self,
        entries: Sequence[Entry],
        texts: TextIndex | None = None,
        *,
        of_turns: bool = False,
        of_tools: bool = False,
        tool: str | None = None,
        of_calls: bool = False,
    ) -> None:
        self.entries = tuple(entries)
        complex_ = [entry for entry in entries if not entry[0].plain]
        behind = [entry for entry in complex_ if _waits_for_gate(entry[0], of_turns=of_turns)]
        self.loop = _loop([entry for entry in entries if entry[0].plain], behind)
        self.full = tuple(entry for entry in complex_ if entry not in behind)
        self.texts = texts
        rules = self.rules
        self.needs_clock = any(bound.needs_clock for bound in rules)
        self.needs_content = any(bound.needs_content for bound in rules)
        self.reads_args = of_tools and any(bound.reads_args for bound in rules)
        # Before the first turn, a gate over turns is unknown; so is the gate of an agent's rule to an unknown agent.
        self.needs_turn = not of_turns and any(bound.needs_turn for bound in rules)
        self.owned = any(bound.spec.agent for bound in rules)
        self.mask = self.untimed_mask = self.waking = 0
        for bound, _ in entries:
            if bound.wakes_at is not None and (tool is None or bound.wakes_at.matches(tool)):
                self.waking |= bound.bit
            elif (bound.plain or bound.only_gated) and not bound.stateless:
                self.mask |= bound.bit
                if bound.wakes_at is None:
                    self.untimed_mask |= bound.bit
        listed = (*self.entries, *(texts.entries if texts is not None else ()))
        self.twins = tuple([(bound.twin, handle) for bound, handle in listed if bound.twin is not None]) or None
        asked = [one for twin, _ in self.twins or () for one in twin.asked] if of_calls else []
        self.asked = Places(asked) if asked else None  # of calls only: no other event is stopped
        self.awake: dict[int, Plan] = {}
        self._of_turns, self._of_tools = of_turns, of_tools
        about: tuple[When, ...] = ("event",) if of_tools else ("event", "turn") if of_turns else ("event", "user")
        self.watch = watch(rules, about)

    @property
    def rules(self) -> list[BoundRule]:
        """The rules of the plan, those that wait for a text too."""
        return [bound for bound, _ in (*self.entries, *(self.texts.entries if self.texts else ()))]

    def without(self, asleep: int) -> Plan:
        """Return the plan of the rules that are not asleep."""
        if len(self.awake) >= _VARIANTS:
            self.awake.clear()
        entries = [(bound, handle) for bound, handle in self.entries if not bound.bit & asleep]
        plan = self.awake[asleep] = Plan(entries, self.texts, of_turns=self._of_turns, of_tools=self._of_tools)
        return plan


def _loop(plain: Sequence[Entry], behind: Sequence[Entry]) -> RuleLoop | None:
    """Return what runs the rules that need no more than a state and a gate; None where there are none."""
    if not plain and not behind:
        return None
    stateless = [_ready(entry) for entry in plain if entry[0].stateless]
    stateful = [_ready(entry) for entry in plain if not entry[0].stateless]
    return RuleLoop(stateless, stateful, [group.steps for group in _groups(behind)], NO_STATE)


def _waits_for_gate(bound: BoundRule, *, of_turns: bool) -> bool:
    """Whether nothing has to be done for the rule while its gate is closed."""
    if bound.only_gated:
        return True
    return bound.gate is not None and bound.ungated is None and (of_turns or not bound.needs_turn)


class PlansByTool(dict[str, Plan | None]):
    """Plans for events that name a tool, made when a name is first seen; None where no rule applies."""

    def __init__(self, entries: Sequence[Entry], waiting: Sequence[Entry], where: Where | None) -> None:
        super().__init__()
        self._entries = [(bound.rule.tools(), bound, handle) for bound, handle in entries]
        self._waiting = [(bound.rule.tools(), bound, handle) for bound, handle in waiting]
        self._where = where
        self._texts: dict[tuple[int, ...], TextIndex | None] = {}  # by rules: tools share them, and names are many

    def __missing__(self, tool: str) -> Plan | None:
        # Agents choose the names: a stream of invented ones must not fill the memory.
        if len(self) >= _MEMO_LIMIT:
            self.clear()
            self._texts.clear()
        entries, texts = _for_tool(self._entries, tool), self._texts_for(tool)
        of_calls = self._where == "tool_args"
        plan = self[tool] = (
            Plan(entries, texts, of_tools=True, tool=tool, of_calls=of_calls) if entries or texts else None
        )
        return plan

    def _texts_for(self, tool: str) -> TextIndex | None:
        """Return the index of the rules that wait for a text in events of the tool."""
        waiting = _for_tool(self._waiting, tool)
        numbers = tuple(bound.number for bound, _ in waiting)
        if numbers not in self._texts:
            self._texts[numbers] = _text_index(waiting, self._where)
        return self._texts[numbers]


def _for_tool(entries: Sequence[tuple[ToolFilter | None, BoundRule, Handler]], tool: str) -> list[Entry]:
    return [(bound, handle) for pattern, bound, handle in entries if pattern is None or pattern.matches(tool)]


def _text_index(waiting: Sequence[Entry], where: Where | None) -> TextIndex | None:
    return TextIndex(waiting, where) if waiting and where is not None else None


class Index:
    """The rules of one key, arranged by the events that trigger them."""

    __slots__ = ("bounds", "calls", "decisions", "ends", "results", "turns", "users")

    def __init__(self, bounds: Sequence[BoundRule]) -> None:
        self.bounds = tuple(bounds)
        self.users = self._plan(UserMessage, "user")
        self.turns = self._plan(Turn, "response")
        self.calls = PlansByTool(*self._entries(ToolCall, "tool_args"), "tool_args")
        self.decisions = PlansByTool(*self._entries(GateDecision, None), None)
        self.results = PlansByTool(*self._entries(ToolResult, "tool_result"), "tool_result")
        self.ends = tuple(bound for bound in bounds if bound.end is not None)

    def plan(self, event: Event) -> Plan | None:
        """Return the rules to run for an event of any kind."""
        if isinstance(event, ToolCall):
            return self.calls[event.tool]
        if isinstance(event, ToolResult):
            return self.results[event.tool]
        if isinstance(event, GateDecision):
            return self.decisions[event.tool]
        return self.turns if isinstance(event, Turn) else self.users if isinstance(event, UserMessage) else None

    def _plan(self, event_type: type[Event], where: Where) -> Plan | None:
        entries, waiting = self._entries(event_type, where)
        texts = _text_index(waiting, where)
        return Plan(entries, texts, of_turns=event_type is Turn) if entries or texts else None

    def _entries(self, event_type: type[Event], where: Where | None) -> tuple[list[Entry], list[Entry]]:
        """Return the rules to call at every event of a type, and those that wait for a text."""
        listed: list[Entry] = []
        waiting: list[Entry] = []
        name = _HANDLERS[event_type]
        for bound in self.bounds:
            if not overrides(bound.rule, name) and not (event_type is Turn and _must_know_gate(bound)):
                continue
            handle: Handler = getattr(bound.rule, name)
            (waiting if where in bound.texts and _may_wait(bound) else listed).append((bound, handle))
        return listed, waiting


def _must_know_gate(bound: BoundRule) -> bool:
    """Whether a rule without ``on_turn`` must still see turns: its end is judged only if its gate opened."""
    return bound.gate is not None and bound.end is not None


def _may_wait(bound: BoundRule) -> bool:
    """Whether a rule needs to run only where its text occurs.

    Not a gated rule with an end to judge: the engine must know that the gate opened, even at a turn without
    the text. Not a rule with a `for` either.
    """
    gate_matters = bound.gate is not None and (bound.end is not None or bound.ungated is not None)
    return not gate_matters and bound.spec.hold is None
