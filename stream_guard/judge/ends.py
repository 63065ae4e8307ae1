"""What rules are asked without an event: when a deadline has passed, and when the scope of their state ends."""

from __future__ import annotations

from collections.abc import Callable

from stream_guard.judge.bound import BoundRule
from stream_guard.judge.evaluation import Evaluation, Findings
from stream_guard.judge.gaps import NOT_ALL_JUDGED
from stream_guard.judge.index import Index
from stream_guard.judge.key_state import Address, KeyState
from stream_guard.judge.model import SessionEnd
from stream_guard.judge.reporting import Reporter
from stream_guard.judge.states import RuleSlots, number_of, state_at


class RuleEnds:
    """Asks rules what did not happen in time, or at all. ``fail`` takes the exceptions of rules."""

    def __init__(
        self,
        bounds: tuple[BoundRule, ...],
        slots: RuleSlots,
        reporter: Reporter,
        fail: Callable[[BoundRule, Exception, Evaluation], None],
    ) -> None:
        self._bounds = bounds
        self._slots = slots
        self._reporter = reporter
        self._fail = fail

    def fire(self, key_state: KeyState, now: float, out: Findings, after: float) -> None:
        """Call ``on_deadline`` of the rules whose deadline is after one time, and not after another, in their order."""
        timers = key_state.timers
        while due := [(time, str(address), address) for address, time in timers.items() if after < time <= now]:
            deadline, _, address = min(due)
            bound = self._bounds[number_of(address)]
            del key_state.timers[address]
            state = state_at(bound, key_state.slots.get(address))
            evaluation = Evaluation(None, key_state, key_state.memory, out)
            try:
                hit = bound.rule.on_deadline(deadline, state)
            except Exception as error:  # noqa: BLE001  # ADR 0007
                self._fail(bound, error, evaluation)
                continue
            self._slots.set_timer(bound, address, state, key_state)
            # A deadline that does not move forward would be called for ever.
            if key_state.timers.get(address, deadline + 1) <= deadline:
                del key_state.timers[address]
            if hit is not None:
                self._reporter.report(bound, hit, evaluation, address, at="deadline", time=deadline)

    def end(self, key_state: KeyState, end: SessionEnd, out: Findings, index: Index, *, part_only: bool) -> None:
        """Call ``on_session_end`` of the rules of an index; of a part, those that keep a state per part."""
        for bound in index.ends:
            if part_only and not bound.part_scoped:
                continue
            if bound.key is not None:
                for address in _ending_addresses(bound, key_state):
                    self._judge(bound, address, end, key_state, out)
            elif _has_begun(bound, key_state):
                self._judge(bound, bound.number, end, key_state, out)

    def _judge(self, bound: BoundRule, address: Address, end: SessionEnd, key_state: KeyState, out: Findings) -> None:
        state = state_at(bound, key_state.slots.get(address))
        try:
            hit = bound.rule.on_session_end(end, state)
        except Exception as error:  # noqa: BLE001  # ADR 0007
            self._fail(bound, error, Evaluation(end, key_state, key_state.memory, out))
            return
        if hit is None:
            return
        evaluation = Evaluation(None, key_state, key_state.memory, out)
        if bound.number in key_state.unevaluable:
            # What is missing may have been in an event that could not be judged.
            self._reporter.count_unevaluable(bound, evaluation, NOT_ALL_JUDGED)
        else:
            self._reporter.report(bound, hit, evaluation, address, at="end", time=end.time)


def _has_begun(bound: BoundRule, key_state: KeyState) -> bool:
    """Whether the end of a rule with a single state is to be judged."""
    if bound.gate is not None:
        slot = key_state.slots.get(bound.number)
        return slot is not None and slot.opened
    # A part without a turn or a call is not judged; a whole trace always is.
    return key_state.part_active or not bound.part_scoped


def _ending_addresses(bound: BoundRule, key_state: KeyState) -> list[Address]:
    """Return the slots of a rule with a key whose end is to be judged."""
    found = [address for address, slot in key_state.slots.items() if slot.opened and number_of(address) == bound.number]
    return sorted(found, key=str)
