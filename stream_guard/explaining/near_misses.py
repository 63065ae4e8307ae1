"""Near misses: of a rule that did not fire, the event that came closest, and what was lacking there.

Outside the gate, its conditions are asked one by one. Inside, the kind says what was lacking (``Rule.shortfall``); of
a kind that does not, a count in its state is held against the one number in its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

import msgspec

from stream_guard.explaining.states import NOTHING, describe_event, describe_state, describe_value, take
from stream_guard.judge.bound import BoundRule, overrides
from stream_guard.judge.conditions import Leaf, Tree, is_number
from stream_guard.judge.model import Event, GateDecision, Hit, Json, Shortfall, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.judge.paths import MISSING
from stream_guard.judge.rule import Rule, State, ToolFilter, Verdict
from stream_guard.judge.spec import Policy, RuleSpec

_HANDLERS: Final[dict[type[Event], str]] = {
    UserMessage: "on_user_message",
    Turn: "on_turn",
    ToolCall: "on_tool_call",
    GateDecision: "on_decision",
    ToolResult: "on_tool_result",
}
_INSIDE: Final = 0.5  # an event inside the gate is always nearer than one outside it
_SHOWN: Final = 40


class NearMiss(msgspec.Struct, frozen=True, kw_only=True):
    """The event at which a rule came closest to a hit, and what was lacking."""

    rule_id: str
    session_id: str
    event_id: str
    what: str  # the event, on one line
    lacks: tuple[str, ...]
    share: float  # how near, from 0 to 1
    index: int | None = None
    satisfied: bool = False  # nothing was lacking: it judged the event and had no objection


class _Candidate(NamedTuple):
    share: float
    event: Event
    lacks: tuple[str, ...]
    state: bytes | None  # of a rule that was satisfied


class _LooksAt(NamedTuple):
    """What a rule looks at."""

    handlers: frozenset[str]
    tools: ToolFilter | None
    has_gate: bool


class NearMisses:
    """Collects, for each rule and session, the event that came closest. A witness of watched rules."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._asked = [_asked(spec) for spec in policy.rules]
        self._governs = [policy.agents.governs(spec.agent) if spec.agent else None for spec in policy.rules]
        self._bounds = [BoundRule(number, spec, policy.agents) for number, spec in enumerate(policy.rules)]
        self._turns: dict[str, Turn] = {}  # the last one of each session
        self._messages: dict[str, UserMessage] = {}
        self._best: dict[tuple[int, str], _Candidate] = {}
        self.fired: set[tuple[int, str]] = set()

    def see(self, event: Event) -> None:
        """Ask the conditions of every gate that an event finds closed."""
        if isinstance(event, Turn):
            self._turns[event.session_id] = event
        elif isinstance(event, UserMessage):
            self._messages[event.session_id] = event
        handler = _HANDLERS.get(type(event))
        for number, asked in enumerate(self._asked):
            if not asked.has_gate or handler not in asked.handlers or (number, event.session_id) in self.fired:
                continue
            if asked.tools is not None and not asked.tools.matches(getattr(event, "tool", "")):
                continue
            self._ask_gate(number, event)

    def answered(self, number: int, shown: Event | float, state: State, verdict: Verdict, *, inside: bool) -> None:
        """Ask the kind what was lacking at an event that it let pass."""
        if isinstance(shown, float | int):
            return
        if isinstance(verdict, Hit):
            self.fired.add((number, shown.session_id))
        elif inside and verdict is None and (number, shown.session_id) not in self.fired:
            rule = self._policy.rules[number].rule
            lacking = _shortfall(rule, shown, state)
            if lacking is None:
                self._consider(number, _Candidate(_INSIDE, shown, (), take(state)))
            else:
                share = _INSIDE + (1 - _INSIDE) * min(max(lacking.share, 0.0), 1.0)
                self._consider(number, _Candidate(share, shown, (lacking.lacks,), None))

    def nearest(self, number: int, session_id: str) -> NearMiss | None:
        """Return where a rule came closest in a session; None where it fired or was never near."""
        found = self._best.get((number, session_id))
        if found is None or (number, session_id) in self.fired:
            return None
        event, spec = found.event, self._policy.rules[number]
        lacks = found.lacks
        if found.state is not None:
            words = describe_state(self._bounds[number].decoder.decode(found.state))
            lacks = ("satisfied" + (f": {words}" if words != NOTHING else ""),)
        return NearMiss(
            rule_id=spec.id,
            session_id=session_id,
            event_id=event.event_id,
            what=describe_event(event),
            lacks=lacks,
            share=round(found.share, 3),
            index=event.index if event.index >= 0 else None,
            satisfied=found.state is not None,
        )

    def nearest_of_all(self, number: int) -> NearMiss | None:
        """Return where a rule came closest, in any session in which it did not fire."""
        sessions = [session for rule, session in self._best if rule == number and (rule, session) not in self.fired]
        best = max(sessions, key=lambda session: self._best[number, session].share, default=None)
        return None if best is None else self.nearest(number, best)

    def _consider(self, number: int, candidate: _Candidate) -> None:
        place = (number, candidate.event.session_id)
        known = self._best.get(place)
        if known is None or candidate.share > known.share:
            self._best[place] = candidate

    def _ask_gate(self, number: int, event: Event) -> None:
        spec = self._policy.rules[number]

        def answer(leaf: Leaf) -> bool:
            about = self._about(leaf, event)
            return about is not None and leaf.holds(about)

        lacking = _lacking(spec.when.tree, answer, wanted=True) if spec.when is not None else []
        if spec.unless is not None:
            lacking += _lacking(spec.unless.tree, answer, wanted=False)
        governs = self._governs[number]
        foreign = governs is not None and not governs(event)
        if not lacking and not foreign:
            return
        size = max(1, len(self._bounds[number].gate_leaves) + foreign)
        near = [_closeness(leaf, self._found(leaf, event), wanted=wanted) for leaf, wanted in lacking]
        share = (size - len(lacking) - foreign + sum(near)) / size
        best = self._best.get((number, event.session_id))
        if best is not None and best.share >= _INSIDE * share:
            return
        texts = [describe_shortfall(leaf, self._found(leaf, event), wanted=wanted) for leaf, wanted in lacking]
        if foreign:
            texts.append(f"the rule is about {spec.agent} and agents below it, not about {event.agent or 'no agent'}")
        self._consider(number, _Candidate(_INSIDE * share, event, tuple(texts), None))

    def _about(self, leaf: Leaf, event: Event) -> Event | None:
        """Return the event that a condition looks at: this one, or the turn or message that it belongs to."""
        if leaf.path.when == "event":
            return event
        known: dict[str, Any] = self._turns if leaf.path.when == "turn" else self._messages
        about: Event | None = known.get(event.session_id)
        return about

    def _found(self, leaf: Leaf, event: Event) -> Json:
        about = self._about(leaf, event)
        return MISSING if about is None else leaf.path.find(about)


def describe_shortfall(leaf: Leaf, found: Json, *, wanted: bool) -> str:
    """Return what a condition found and what it asks for."""
    path, op = leaf.path.text, leaf.op
    if op == "exists":
        there = (leaf.value is not False) is wanted
        return f"{path} is missing" if there else f"{path} is there"
    asked = f"{'' if wanted else 'not '}{op} {describe_value(leaf.value, _SHOWN)}"
    if found is MISSING:
        return f"{path} is missing; it must be {asked}"
    return f"{path} is {describe_value(found, _SHOWN)}; it must be {asked}{_gap(leaf, found, wanted=wanted)}"


def _gap(leaf: Leaf, found: Json, *, wanted: bool) -> str:
    if not wanted or leaf.op not in {">", ">=", "<", "<="} or not is_number(found):
        return ""
    gap = abs(leaf.value - found)
    return f" ({gap:,.10g} {'short' if leaf.op[0] == '>' else 'over'})" if gap else ""


def _closeness(leaf: Leaf, found: Json, *, wanted: bool) -> float:
    """Return how near a value was to what a condition asks for: from 0 to just under 1."""
    if found is MISSING or not wanted:
        return 0.0
    if is_number(found) and is_number(leaf.value):
        gap, asked = float(abs(found - leaf.value)), float(abs(leaf.value))
        return 0.99 * (1 - gap / (gap + asked + 1))
    if isinstance(found, str) and isinstance(leaf.value, str) and len(found) < 200:
        return 0.5 * SequenceMatcher(None, found, leaf.value[:200], autojunk=False).quick_ratio()
    return 0.1


def _asked(spec: RuleSpec) -> _LooksAt:
    rule = spec.rule
    handlers = frozenset(name for name in _HANDLERS.values() if overrides(rule, name))
    return _LooksAt(handlers, rule.tools(), spec.when is not None or spec.unless is not None or bool(spec.agent))


def _shortfall(rule: Rule[Any, Any], event: Event, state: State) -> Shortfall | None:
    try:
        said = rule.shortfall(event, state)
    except Exception:  # noqa: BLE001  # a kind that cannot explain itself must not hide what others can
        said = None
    return said if said is not None else _count_of(rule, state)


def _count_of(rule: Rule[Any, Any], state: State) -> Shortfall | None:
    """Hold the only count of a state against the only number in the parameters, where both are."""
    limits = _numbers(rule.params, type(rule.params).model_fields)
    counts = _numbers(state, state.__struct_fields__)
    if len(limits) != 1 or len(counts) != 1 or limits[0][1] <= 0:
        return None
    (_, limit), (name, count) = limits[0], counts[0]
    words = name.replace("_", " ")
    return Shortfall(f"{words}: {count:,.10g} of {limit:,.10g}", min(1.0, count / (limit + 1)))


def _numbers(holder: object, names: Iterable[str]) -> list[tuple[str, float]]:
    values = [(name, getattr(holder, name, None)) for name in names]
    return [(name, float(value)) for name, value in values if value is not None and is_number(value)]


def _lacking(tree: Tree, answer: Callable[[Leaf], bool], *, wanted: bool) -> list[tuple[Leaf, bool]]:
    """Return the fewest leaves that keep a condition from being as ``wanted``, each with the answer it would need."""
    if isinstance(tree, Leaf):
        return [] if answer(tree) is wanted else [(tree, wanted)]
    group, parts = tree
    if group == "not":
        return _lacking(parts[0], answer, wanted=not wanted)
    found = [_lacking(part, answer, wanted=wanted) for part in parts]
    if (group == "all_of") is wanted:  # all of them have to change
        return [leaf for leaves in found for leaf in leaves]
    return min(found, key=len, default=[])
