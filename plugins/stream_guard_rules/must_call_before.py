"""A tool is not called until another one has been."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import as_evidence, spoken
from stream_guard_rules.shared.json_values import digest
from stream_guard_rules.shared.lost_memory import FORGOTTEN, note_forgotten, was_forgotten, with_room
from stream_guard_rules.shared.params import ArgumentPath, check_relative

_MOST_FIRSTS = 128
_MOST_WAITING = 32
_SHOWN = 80  # characters of an argument in a message
_EARLY = "early "  # before the values of early calls, among those that were forgotten

# How far an attempt at `first` has come.
_HELD, _TRIED, _RAN = 0, 1, 2


class MustCallBeforeParams(sg.Params):
    """Parameters of ``must_call_before``."""

    first: sg.ToolPattern = Field(description="the tool that must come first: a name, a glob, or a list of them")
    second: sg.ToolPattern = Field(
        validation_alias=AliasChoices("second", "then"), description="the tool that must wait for it (or `then`)"
    )
    if_first_absent: Literal["fire", "ignore"] = Field(
        default="fire",
        description="`fire`: `second` without `first` is a hit at once; `ignore`: only when `first` comes too late",
    )
    same_arg: Annotated[ArgumentPath, AfterValidator(check_relative)] | None = Field(
        default=None,
        description="a dotted path into the arguments whose value must be the same in both calls, such as order_id",
    )
    first_must_succeed: bool = Field(
        default=False, description="`first` counts when its result is ok, not when it is tried"
    )
    within_seconds: sg.Duration | None = Field(
        default=None,
        description="how long `first` is good for, counted from its call (from its ok result, if that is asked)",
    )
    reset_on: sg.ToolPattern | None = Field(
        default=None,
        description="tools whose call makes `first` forgotten; `second` itself asks for a `first` each time. With "
        "`same_arg`, the `first` of the same value, or of all values where the call has no such argument",
    )


class First(sg.State):
    """One attempt at ``first``."""

    attempt: int
    standing: int
    time: float | None
    value: str


class Waiting(sg.State):
    """One call of ``second`` that came too early."""

    attempt: int
    index: int
    value: str


class MustCallBeforeState(sg.State):
    """The attempts at ``first`` that may unlock ``second``, and the early calls of ``second``.

    They are tuples, because an empty one takes no memory: most sessions have such a state, and most are empty.
    """

    firsts: tuple[First, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    unlocked: bool = False  # for good: a `first` ran, and nothing can take that back
    forgotten: sg.Sketch | None = None  # values of attempts at `first` and of early calls of `second` that were evicted
    evicted_until: float | None = None  # the latest time of such an attempt at `first`


class MustCallBefore(sg.Rule[MustCallBeforeParams, MustCallBeforeState]):
    """``second`` must not be called until ``first`` has been.

    An attempt at ``first`` counts unless a gate stopped it: a blocked attempt unlocks nothing. With a ``when``,
    ``first`` and ``reset_on`` count outside the gate too. The last 128 attempts at ``first`` are remembered; a
    ``second`` for an older one could not be judged. With ``if_first_absent: ignore``, the last 32 early calls of
    ``second`` are remembered; a ``first`` for one that was forgotten could not be judged.
    """

    kind = "must_call_before"
    state_limit = 10240
    examples = (
        sg.Example(
            claim="a refund before the confirmation is a hit",
            params={"first": "confirm_amount", "second": "issue_refund"},
            trace=[{"call": "issue_refund"}, {"call": "confirm_amount"}],
            hits=[0],
        ),
        sg.Example(
            claim="a blocked confirmation unlocks nothing",
            params={"first": "confirm_amount", "second": "issue_refund"},
            trace=[
                {"call": "confirm_amount", "id": "a"},
                {"result": "confirm_amount", "id": "a", "status": "blocked"},
                {"call": "issue_refund"},
            ],
            hits=[2],
        ),
        sg.Example(
            claim="a confirmation of another order unlocks nothing",
            params={"first": "confirm_amount", "second": "issue_refund", "same_arg": "order_id"},
            trace=[
                {"call": "confirm_amount", "args": {"order_id": "A1"}},
                {"call": "issue_refund", "args": {"order_id": "A2"}},
            ],
            hits=[1],
        ),
        sg.Example(
            claim="the right order is silent",
            params={"first": "confirm_amount", "second": "issue_refund"},
            trace=[{"call": "confirm_amount"}, {"call": "issue_refund"}],
            hits=[],
        ),
    )

    def __init__(self, params: MustCallBeforeParams) -> None:
        super().__init__(params)
        self._first, self._second, self._reset = params.first, params.second, params.reset_on
        self._argument = sg.Path(f"tool.args.{params.same_arg}") if params.same_arg else None
        self._must_succeed, self._within = params.first_must_succeed, params.within_seconds
        self._required_standing = _RAN if params.first_must_succeed else _TRIED
        self._ignores_absence = params.if_first_absent == "ignore"
        self._requirement = _requirement(params)
        # What can run out, be reset or be asked for again with another argument is never unlocked for good.
        self._unlocks_for_good = params.within_seconds is None and params.reset_on is None and params.same_arg is None

    def tools(self) -> sg.ToolPattern:
        """Every tool that the rule names."""
        named = (self.params.first, self.params.second, self.params.reset_on)
        return sg.ToolPattern([name for pattern in named if pattern is not None for name in pattern.expanded])

    def needs(self) -> frozenset[sg.Need]:
        """Content for ``same_arg``, a clock for ``within_seconds``."""
        content: frozenset[sg.Need] = frozenset(("content",) if self._argument else ())
        return content | frozenset(("clock",) if self.params.within_seconds else ())

    def rests_on_memory(self, call: sg.ToolCall) -> bool:
        """Whether another call may have come too early for it; without a memory of ``first``, ``second`` fires."""
        return self._ignores_absence and self._first.matches(call.tool)

    def on_tool_call(self, call: sg.ToolCall, state: MustCallBeforeState) -> sg.Verdict:
        """Judge ``second`` by what came before it, then remember ``first``."""
        if state.unlocked:
            return None
        hit = self._judge(call, state) if self._second.matches(call.tool) else None
        late = self._remember_first(call, state)
        return late if hit is None else hit

    def on_decision(self, decision: sg.GateDecision, state: MustCallBeforeState) -> None:
        """Hold, release or forget the attempt."""
        if state.unlocked:
            return
        if decision.action in {"block", "terminate_session"}:
            self._forget(decision.attempt, state)
            return
        first = _find(decision.attempt, state)
        if first is not None and first.standing != _RAN:
            first.standing = _HELD if decision.action == "pause" else _TRIED

    def on_tool_result(self, result: sg.ToolResult, state: MustCallBeforeState) -> sg.Verdict:
        """Record whether the attempt ran, and whether it succeeded."""
        if state.unlocked:
            return None
        if not state.firsts and not state.waiting:
            return None
        must_succeed, status = self._must_succeed, result.status
        if status == "blocked" or (status == "error" and must_succeed):
            self._forget(result.attempt, state)
            return None
        first = _find(result.attempt, state)
        if first is None:
            if state.forgotten is not None and self._first.matches(result.tool):
                self._note_evicted(result.time, state)  # good from its result on
            return None
        late = self._late_hit(first, result.tool, state) if must_succeed and state.waiting else None
        if self._unlocks_for_good:
            state.unlocked = True
            state.firsts = ()
            if state.waiting:
                state.waiting = ()
            return late
        first.standing = _RAN
        if self._within is None:
            self._drop_older(first, state)
        elif must_succeed:
            first.time = result.time
        return late

    def on_ungated(self, event: sg.Event, state: MustCallBeforeState) -> sg.Verdict:
        """Count ``first``, and what stops or resets it, outside the gate too."""
        if state.unlocked:
            return None
        # By the exact type: to tell that a struct is no instance of a class takes longer than the rest.
        if type(event) is sg.ToolCall:
            return self._remember_first(event, state)
        if type(event) is sg.ToolResult:
            return self.on_tool_result(event, state)
        if type(event) is sg.GateDecision:
            self.on_decision(event, state)
        return None

    def shortfall(self, event: sg.Event, state: MustCallBeforeState) -> sg.Shortfall | None:
        """At ``second``: that ``first`` came before it, in time."""
        if not isinstance(event, sg.ToolCall) or not self._second.matches(event.tool):
            return None
        within, now = self.params.within_seconds, event.time
        valid = [first for first in state.firsts if self._unlocks(first, self._value(event), now)]
        if within is not None and now is not None and valid:
            age = min(now - first.time for first in valid if first.time is not None)
            return sg.Shortfall(f"{self.params.first} was {age:,.3g} s old, and is good for {within:g} s", age / within)
        lack = f"{self.params.first} came first" if valid or state.unlocked else f"{event.tool} waits for what may come"
        return sg.Shortfall(lack, 0.1)

    def _value(self, call: sg.ToolCall) -> str | None:
        """Return the digest of the argument to compare: empty without ``same_arg``, None if the argument is absent."""
        if self._argument is None:
            return ""
        value = self._argument.find(call)
        return None if value is sg.MISSING or value is None else digest(value)

    def _judge(self, call: sg.ToolCall, state: MustCallBeforeState) -> sg.Hit | sg.Unsure | None:
        value = self._value(call)
        if any(self._unlocks(first, value, call.time) for first in state.firsts):
            return None
        if state.forgotten is not None and value is not None and self._may_have_come(value, call.time, state):
            return FORGOTTEN
        if not self._ignores_absence:
            return sg.Hit(self._detail(call), self._evidence(call), advice=self._advice(call))
        if value is not None:
            early = Waiting(call.attempt, call.index, value)
            state.waiting = (*with_room(state.waiting, _MOST_WAITING, _early_name, state), early)
        return None

    def _may_have_come(self, value: str, now: float | None, state: MustCallBeforeState) -> bool:
        """Whether an attempt at ``first`` that was evicted may be good for this value."""
        within, evicted = self._within, state.evicted_until
        is_young = within is None or now is None or (evicted is not None and now - evicted < within)
        return is_young and was_forgotten(value, state)

    def _detail(self, call: sg.ToolCall) -> str:
        """Return what was called before what; with ``same_arg``: "Edit of a.py was called before Read of it"."""
        if self._argument is None:
            return f"{call.tool} was called before {self._requirement}"
        value = self._argument.find(call)
        if value is sg.MISSING or value is None:
            return f"{call.tool} was called without {self.params.same_arg}, and before {self._requirement}"
        return f"{call.tool} of {as_evidence(value)[:_SHOWN]} was called before {self._requirement}"

    def _advice(self, call: sg.ToolCall) -> str:
        """Return the call that has to come first."""
        value = self._argument.find(call) if self._argument is not None else None
        same = f" with {self.params.same_arg} {as_evidence(value)[:_SHOWN]}" if value not in (sg.MISSING, None) else ""
        succeed = ", and have it succeed," if self.params.first_must_succeed else ""
        return f"call {self.params.first}{same}{succeed} first"

    def _evidence(self, call: sg.ToolCall) -> dict[str, sg.Json]:
        evidence: dict[str, sg.Json] = {"tool": call.tool, "first": str(self.params.first)}
        if self._argument is not None:
            value = self._argument.find(call)
            evidence["same_arg"] = self.params.same_arg
            evidence["value"] = None if value is sg.MISSING else as_evidence(value)
        return evidence

    def _unlocks(self, first: First, value: str | None, now: float | None) -> bool:
        if first.value != value or first.standing < self._required_standing:
            return False
        within = self._within
        # Half-open: a `first` exactly that old is no longer good.
        return within is None or (now is not None and first.time is not None and now - first.time < within)

    def _remember_first(self, call: sg.ToolCall, state: MustCallBeforeState) -> sg.Hit | sg.Unsure | None:
        """Remember an attempt at ``first``, after forgetting the earlier ones if the call resets them."""
        if self._reset is not None and self._reset.matches(call.tool):
            self._reset_firsts(self._value(call), state)
        if not self._first.matches(call.tool):
            return None
        value = self._value(call)
        if value is None:
            return None
        first = First(call.attempt, _TRIED, None if self._within is None else call.time, value)
        if len(state.firsts) >= _MOST_FIRSTS:
            self._evict_first(state)
        state.firsts = (*state.firsts, first)
        return self._late_hit(first, call.tool, state) if state.waiting and not self._must_succeed else None

    def _reset_firsts(self, value: str | None, state: MustCallBeforeState) -> None:
        """Forget what came before for the value, or for all values where the call names none."""
        state.firsts = tuple([first for first in state.firsts if value is not None and first.value != value])
        if not state.firsts and not self._ignores_absence and (value is None or self._argument is None):
            state.forgotten = None

    def _evict_first(self, state: MustCallBeforeState) -> None:
        """Evict the oldest attempt at ``first``; one that ran and is younger stands for it."""
        oldest, *rest = state.firsts
        state.firsts = tuple(rest)
        if not any(first.value == oldest.value and first.standing == _RAN for first in rest):
            note_forgotten(oldest.value, state)
            self._note_evicted(oldest.time, state)

    def _note_evicted(self, time: float | None, state: MustCallBeforeState) -> None:
        """Note the time of an attempt at ``first`` that was evicted, where that counts."""
        if self._within is not None:
            state.evicted_until = max(state.evicted_until or 0.0, time or 0.0)

    def _late_hit(self, first: First, tool: str, state: MustCallBeforeState) -> sg.Hit | sg.Unsure | None:
        """Fire when an early ``second`` waits for this ``first``, at the turn of its earliest call."""
        early = [call for call in state.waiting if call.value == first.value and call.attempt != first.attempt]
        if not early:
            return FORGOTTEN if was_forgotten(_EARLY + first.value, state) else None
        state.waiting = tuple([call for call in state.waiting if call not in early])
        return sg.Hit(
            f"{tool} came after {self.params.second}, which must wait for it",
            {"tool": tool, "second": str(self.params.second), "early_calls": len(early)},
            early[0].index,
        )

    def _drop_older(self, first: First, state: MustCallBeforeState) -> None:
        """Forget the older attempts that a settled one makes superfluous."""
        place = state.firsts.index(first)
        if place:
            older = [other for other in state.firsts[:place] if other.value != first.value]
            state.firsts = (*older, *state.firsts[place:])

    def _forget(self, attempt: int, state: MustCallBeforeState) -> None:
        state.firsts = tuple([first for first in state.firsts if first.attempt != attempt])
        state.waiting = tuple([call for call in state.waiting if call.attempt != attempt])


def _early_name(early: Waiting) -> str:
    return _EARLY + early.value


def _find(attempt: int, state: MustCallBeforeState) -> First | None:
    if attempt >= 0:
        for first in state.firsts:
            if first.attempt == attempt:
                return first
    return None


def _requirement(params: MustCallBeforeParams) -> str:
    """Return what was required, to follow "... was called before"."""
    same = (" of it" if params.first.exact is not None else " for it") if params.same_arg else ""
    succeeded = " succeeded" if params.first_must_succeed else ""
    within = f" in the last {params.within_seconds:g} s" if params.within_seconds else ""
    return f"{spoken(params.first, 'what has to come first')}{same}{succeeded}{within}"
