"""Watched rules: a policy whose rules do what they always do, and tell a witness what they were shown and answered.

The engine runs them as any other policy. A watched kind derives from the rule's own and hands each call on, so the
verdicts are those of the rule itself. One more rule, the first of the policy, sees every event that rules are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from stream_guard.explaining.states import take
from stream_guard.judge.bound import overrides
from stream_guard.judge.model import Event, GateDecision, SessionEnd, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.judge.rule import ALL_MODES, NoState, Params, Rule, RuleType, State, Verdict
from stream_guard.judge.spec import Policy, RuleSpec

EVERY_EVENT: Final = "stream_guard_every_event"
"""The id of the rule that sees every event. It never fires."""

_HANDLERS: Final = ("on_user_message", "on_turn", "on_tool_call", "on_decision", "on_tool_result")


class Witness(Protocol):
    """Learns what the rules of a policy are shown, in order."""

    def see(self, event: Event) -> None:
        """An event is shown to the rules; it is over when the next one is."""

    def answered(
        self, number: int, shown: Event | float, before: bytes, state: State, verdict: Verdict, *, inside: bool
    ) -> None:
        """A rule answered to an event or a deadline; ``before`` is its state from before that, as bytes."""


class EveryEvent(Rule[Params, NoState]):
    """Sees every event, and never fires."""

    kind = EVERY_EVENT
    modes = ALL_MODES

    def __init__(self, params: Params, see: Callable[[Event], None]) -> None:
        super().__init__(params)
        self._see = see

    def on_user_message(self, message: UserMessage, _state: NoState) -> None:
        """Tell the witness."""
        self._see(message)

    def on_turn(self, turn: Turn, _state: NoState) -> None:
        """Tell the witness."""
        self._see(turn)

    def on_tool_call(self, call: ToolCall, _state: NoState) -> None:
        """Tell the witness."""
        self._see(call)

    def on_decision(self, decision: GateDecision, _state: NoState) -> None:
        """Tell the witness."""
        self._see(decision)

    def on_tool_result(self, result: ToolResult, _state: NoState) -> None:
        """Tell the witness."""
        self._see(result)

    def on_session_end(self, end: SessionEnd, _state: NoState) -> None:
        """Tell the witness."""
        self._see(end)


def watch(policy: Policy, witness: Witness) -> Policy:
    """Return the policy with every rule watched. Findings, their ids and the version are those of the policy."""
    watched = [_watched(number, spec, witness) for number, spec in enumerate(policy.rules)]
    return show_all(replace(policy, rules=tuple(watched)), witness.see)


def show_all(policy: Policy, see: Callable[[Event], None]) -> Policy:
    """Return the policy with one more rule, which never fires: ``see`` is told of every event that rules are shown."""
    every = RuleSpec(id=EVERY_EVENT, slot=EVERY_EVENT, rule=EveryEvent(Params(), see), shadow=True)
    return replace(policy, rules=(every, *policy.rules))


def _watched(number: int, spec: RuleSpec, witness: Witness) -> RuleSpec:
    kind = type(spec.rule)
    names = (*_HANDLERS, "on_ungated", "on_deadline", "on_session_end")
    busy: list[str] = []
    members: dict[str, Any] = {
        name: _watched_handler(name, getattr(kind, name), number, witness, busy)
        for name in names
        if overrides(spec.rule, name)
    }
    derived: RuleType = type(f"Watched{kind.__name__}", (kind,), members | {"__module__": kind.__module__})
    return replace(spec, rule=derived(spec.rule.params))


def _watched_handler(
    name: str, handle: Callable[..., Any], number: int, witness: Witness, busy: list[str]
) -> Callable[..., Any]:
    """Return the handler of a watched kind. One handler of a rule may call another; only the outer call is told."""

    def handler(rule: Rule[Any, Any], shown: Event | float, state: State) -> Any:
        if busy:
            return handle(rule, shown, state)
        before = take(state)
        busy.append(name)
        try:
            verdict = handle(rule, shown, state)
        finally:
            busy.clear()
        witness.answered(number, shown, before, state, verdict, inside=name != "on_ungated")
        return verdict

    handler.__name__ = name  # the engine tells handlers apart by it
    return handler
