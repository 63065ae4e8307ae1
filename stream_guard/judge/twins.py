"""Twins: rules that stop, asked once more about a call as another executor would hand it to the tool.

A twin is its rule over the same events, with arguments taken as the types that the rule asks for. It has a state of
its own from the first call on that may be taken so, and none while both have seen the same. Where the twin fires and
the rule does not, what the tool will get is not certain: the call is contested, and the rule could not judge it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec.structs import replace

from stream_guard.judge.arguments import UNREAD
from stream_guard.judge.asked_arguments import Asked, asked_arguments, variants
from stream_guard.judge.bound import NO_STATE, BoundRule, Handler, overrides
from stream_guard.judge.encoding import decode, encode
from stream_guard.judge.evaluation import Evaluation
from stream_guard.judge.index import Plan
from stream_guard.judge.key_state import Address, KeyState
from stream_guard.judge.model import Event, GateDecision, Hit, Json, ToolCall, ToolResult, Unsure
from stream_guard.judge.paths import lookup
from stream_guard.judge.rule import State
from stream_guard.judge.spec import Agents
from stream_guard.judge.states import RuleSlots
from stream_guard.judge.texts import has_text


class Twin:
    """A rule that stops, with what it asks about arguments, and where the state of its twin stands."""

    __slots__ = ("asked", "bound", "rule")

    def __init__(self, rule: BoundRule, bound: BoundRule, asked: tuple[Asked, ...]) -> None:
        self.rule = rule
        self.bound = bound  # the same rule under a number and a tag of its own
        self.asked = asked


TwinEntry: TypeAlias = tuple[Twin, Handler]
Taken: TypeAlias = tuple[Twin, Address, State]
"""A twin, and the state that it comes to, with its address."""


def make_twins(bounds: Sequence[BoundRule], agents: Agents) -> list[BoundRule]:
    """Give each rule that stops and asks about arguments its twin; return those, numbered after the rules."""
    made: list[BoundRule] = []
    tags = {bound.tag for bound in bounds}
    known: dict[tuple[Asked, ...], tuple[Asked, ...]] = {}
    for rule in bounds:
        if not rule.spec.stops or not overrides(rule.rule, "on_tool_call"):
            continue
        asked = asked_arguments(rule.spec)
        if not asked:
            continue
        bound = BoundRule(len(bounds) + len(made), rule.spec, agents)
        bound.is_twin = True
        bound.timer = bound.end = None  # a deadline and an end stop no call
        while bound.tag in tags:
            bound.tag = (bound.tag * 31 + 1) % (1 << 32)
        tags.add(bound.tag)
        rule.twin = Twin(rule, bound, known.setdefault(asked, asked))
        made.append(bound)
    return made


class TwinJudge:
    """Asks twins about events before their rules are."""

    def __init__(self, slots: RuleSlots) -> None:
        self._slots = slots

    def ask(self, entries: Sequence[TwinEntry], event: Event, evaluation: Evaluation) -> tuple[list[Twin], list[Taken]]:
        """Return the twins that fire at a call, or cannot judge it, and the states that twins come to."""
        fired: list[Twin] = []
        taken: list[Taken] = []
        made: dict[int, list[Json] | None] = {}  # most rules of a tool ask about the same few places
        for twin, handle in entries:
            asked = id(twin.asked)
            others = made[asked] if asked in made else made.setdefault(asked, _others(twin, event))
            if others is None:
                fired.append(twin)
                continue
            if others:
                shown = [replace(event, args=args) for args in others]
            elif evaluation.key_state.twinned:
                shown = [event]
            else:
                continue
            if any(self._fires(twin, handle, one, evaluation, taken, forks=bool(others)) for one in shown):
                fired.append(twin)
        return fired, taken

    def settle(self, taken: Sequence[Taken], key_state: KeyState) -> None:
        """Keep the states of twins that differ from those of their rules, which have run since."""
        for twin, address, state in taken:
            main = key_state.slots.get(_main(twin, address))
            if state == (twin.bound.default if main is None else main.state):
                self._slots.forget(key_state, address)
                continue
            self._slots.get(twin.bound, address, key_state).state = state
            key_state.twinned.add(address)

    def _fires(
        self, twin: Twin, handle: Handler, event: Event, evaluation: Evaluation, taken: list[Taken], *, forks: bool
    ) -> bool:
        """Whether a twin fires at an event; its state goes forward where ``taken`` has none of it yet."""
        bound, key_state = twin.bound, evaluation.key_state
        if bound.gate is not None and not bound.gate(event, evaluation.memory):
            if bound.ungated is None:
                return False
            handle = bound.ungated
        address = bound.number if bound.key is None else bound.key(event)
        if address is None or not has_text(bound, event):
            return False
        if bound.stateless:
            return _is_doubt(bound, handle, event, NO_STATE)
        if address not in key_state.slots:
            if self._slots.is_forgotten(bound, address, key_state):
                return True
            if not forks:
                return False  # its state is that of the rule
        state = self._copy(twin, address, key_state)
        verdict = _is_doubt(bound, handle, event, state)
        if not taken or taken[-1][0] is not twin:
            taken.append((twin, address, state))
        return verdict

    def _copy(self, twin: Twin, address: Address, key_state: KeyState) -> State:
        known = key_state.slots.get(address) or key_state.slots.get(_main(twin, address))
        return twin.bound.new_state() if known is None else decode(encode(known.state), type(known.state))


def may_vary(plan: Plan, event: Event) -> bool:
    """Whether the tool of a call may get other values than those sent, where a rule that stops asks about them."""
    if plan.asked is None or type(event) is not ToolCall:
        return False
    if event.handed is not None:
        return event.handed != ()
    return plan.asked.may_vary(event.args) if type(event.args) is dict else event.args == UNREAD.value


def _others(twin: Twin, event: Event) -> list[Json] | None:
    """Return the other arguments that the tool may get, as far as the rule asks; None: too many to be judged."""
    if type(event) is ToolCall and event.handed is not None:
        return [args for args in event.handed if _differ(args, event.args, twin.asked)]
    if type(event) is ToolCall or type(event) is ToolResult or type(event) is GateDecision:
        if type(event.args) is dict:
            return variants(event.args, twin.asked)
        # Nobody knows what was nested too deep, so a rule that compares all arguments cannot.
        return None if event.args == UNREAD.value and any(not steps for steps, _ in twin.asked) else []
    return []


def _differ(one: Json, other: Json, asked: Sequence[Asked]) -> bool:
    return any(not steps or lookup(one, steps) is not lookup(other, steps) for steps, _ in asked)


def _main(twin: Twin, address: Address) -> Address:
    """Return where the state of the rule stands, from where that of its twin does."""
    return twin.rule.number if isinstance(address, int) else (twin.rule.number, *address[1:])


def _is_doubt(bound: BoundRule, handle: Handler, event: Event, state: State) -> bool:
    """Whether a rule fires at an event, or cannot judge it."""
    try:
        verdict = handle(event, state)
    except Exception:  # noqa: BLE001  # ADR 0007
        return bound.spec.on_error == "closed"
    if isinstance(verdict, Hit):
        return not verdict.followup
    return isinstance(verdict, Unsure) and verdict.why == "unevaluable" and not verdict.followup
