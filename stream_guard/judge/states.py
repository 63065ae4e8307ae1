"""The states of rules in a key state: made when first needed, bounded in number, forgotten with their scope."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from stream_guard.judge.bound import NO_STATE, BoundRule
from stream_guard.judge.counts import Counts
from stream_guard.judge.key_state import Address, KeyState
from stream_guard.judge.rule import State
from stream_guard.judge.sketch import Sketch, sketch_number

_SKETCH_BYTES: Final = 2**14  # of 5000 forgotten keys, one new key in 1000 is taken for one of them


def number_of(address: Address) -> int:
    """Return the number of the rule whose state stands at an address."""
    return address if isinstance(address, int) else int(address[0])


class RuleStates:
    """Finds, makes and forgets the states of a policy's rules, with their timers."""

    def __init__(self, bounds: tuple[BoundRule, ...], counts: Counts, most: int) -> None:
        self._bounds = bounds
        self._counts = counts
        self._most = most  # in one key state

    def get(self, bound: BoundRule, address: Address, key_state: KeyState) -> State:
        """Return the state at an address; a new one where there is none yet."""
        if bound.stateless:
            return NO_STATE
        state = key_state.states.get(address)
        if state is None:
            if len(key_state.states) >= self._most:
                self._evict(key_state)
            state = key_state.states[address] = bound.new_state()
        return state

    def _evict(self, key_state: KeyState) -> None:
        """Forget the oldest keyed state: an agent that invents keys must not fill the memory."""
        oldest = next((address for address in key_state.states if isinstance(address, tuple)), None)
        if oldest is not None:
            bound = self._bounds[number_of(oldest)]
            if bound.must_remember and key_state.states[oldest] != bound.default:
                if key_state.forgotten is None:
                    key_state.forgotten = Sketch()
                key_state.forgotten.add(_sketched(bound, oldest), _SKETCH_BYTES)
            self._forget(key_state, oldest)
            self._counts.evictions["states"] += 1

    def is_forgotten(self, bound: BoundRule, address: Address, key_state: KeyState) -> bool:
        """Whether the state of a rule that stops was forgotten at an address, or may have been."""
        forgotten = key_state.forgotten
        return forgotten is not None and bound.must_remember and _sketched(bound, address) in forgotten

    def _forget(self, key_state: KeyState, address: Address) -> None:
        key_state.states.pop(address, None)
        key_state.twinned.discard(address)
        if key_state.asleep:
            key_state.asleep &= ~self._bounds[number_of(address)].bit
        if key_state.timers:
            key_state.timers.pop(address, None)
        if key_state.cooldowns:
            key_state.cooldowns.pop(address, None)
        if key_state.holds:
            key_state.holds.pop(address, None)
        if key_state.awaiting_end:
            key_state.awaiting_end.pop(address, None)

    def forget_all(self, key_state: KeyState, rules: Set[int]) -> None:
        """Forget everything that a key state has of these rules."""
        for address in list(key_state.states):
            if number_of(address) in rules:
                self._forget(key_state, address)
        # Mostly empty, and what had a state is gone from them.
        if key_state.awaiting_end or key_state.cooldowns or key_state.holds:
            for address in [*key_state.awaiting_end, *key_state.cooldowns, *key_state.holds]:
                if number_of(address) in rules:
                    self._forget(key_state, address)
        if key_state.unevaluable:
            key_state.unevaluable -= rules
        if key_state.cut:
            key_state.cut -= rules

    def set_timer(self, bound: BoundRule, address: Address, state: State, key_state: KeyState) -> None:
        """Set the timer of a state to the deadline that its rule asks for, if it asks for one."""
        deadline = bound.timer(state) if bound.timer is not None else None
        if deadline is None:
            key_state.timers.pop(address, None)
        else:
            key_state.timers[address] = deadline

    def restore_timers(self, key_state: KeyState) -> None:
        """Set the timers from restored states, and note which of them are of twins."""
        key_state.twinned = {address for address in key_state.states if self._bounds[number_of(address)].is_twin}
        for address, state in key_state.states.items():
            bound = self._bounds[number_of(address)]
            if bound.timer is not None:
                self.set_timer(bound, address, state, key_state)


def _sketched(bound: BoundRule, address: Address) -> int:
    """Return the number of an address for a sketch: that of its rule's tag, which no other policy changes."""
    values = () if isinstance(address, int) else address[1:]
    return sketch_number("\0".join([f"{bound.tag:08x}", *map(str, values)]))
