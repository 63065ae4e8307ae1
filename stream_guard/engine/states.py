"""The states of rules in a key state: made when first needed, bounded in number, forgotten with their scope."""

from __future__ import annotations

from collections.abc import Set

from stream_guard.engine.bound import NO_STATE, BoundRule
from stream_guard.engine.key_state import Address, KeyState
from stream_guard.observability.counts import Counts
from stream_guard.rule import State


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
            self._forget(key_state, oldest)
            self._counts.evictions["states"] += 1

    def _forget(self, key_state: KeyState, address: Address) -> None:
        key_state.states.pop(address, None)
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

    def set_timer(self, bound: BoundRule, address: Address, state: State, key_state: KeyState) -> None:
        """Set the timer of a state to the deadline that its rule asks for, if it asks for one."""
        deadline = bound.timer(state) if bound.timer is not None else None
        if deadline is None:
            key_state.timers.pop(address, None)
        else:
            key_state.timers[address] = deadline

    def restore_timers(self, key_state: KeyState) -> None:
        """Set the timers from restored states."""
        for address, state in key_state.states.items():
            bound = self._bounds[number_of(address)]
            if bound.timer is not None:
                self.set_timer(bound, address, state, key_state)
