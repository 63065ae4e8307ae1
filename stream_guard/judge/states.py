"""The slots of rules in a key state: made when first needed, bounded in number, forgotten with their scope."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from stream_guard.judge.bound import NO_STATE, BoundRule
from stream_guard.judge.counts import Counts
from stream_guard.judge.forgotten import Sketch, sketch_number
from stream_guard.judge.key_state import Address, KeyState, Slot
from stream_guard.judge.rule import State

_SKETCH_BYTES: Final = 2**14  # of 5000 forgotten keys, one new key in 1000 is taken for one of them


def number_of(address: Address) -> int:
    """Return the number of the rule whose slot stands at an address."""
    return address if isinstance(address, int) else int(address[0])


class RuleSlots:
    """Finds, makes and forgets the slots of a policy's rules, with their timers."""

    def __init__(self, bounds: tuple[BoundRule, ...], counts: Counts, most: int) -> None:
        self._bounds = bounds
        self._counts = counts
        self._most = most  # with a key, in one key state

    def get(self, bound: BoundRule, address: Address, key_state: KeyState) -> Slot:
        """Return the slot at an address; a new one where there is none yet. It is the last used from now on."""
        if bound.slotless:
            return Slot(NO_STATE)
        slots = key_state.slots
        if isinstance(address, int):
            slot = slots.get(address)
            if slot is None:
                slot = slots[address] = Slot(bound.new_state())
            return slot
        slot = slots.pop(address, None)
        if slot is None:
            if key_state.keyed >= self._most:
                self._evict(key_state)
            slot = Slot(bound.new_state())
            key_state.keyed += 1
        slots[address] = slot
        return slot

    def leave(self, bound: BoundRule, address: Address, slot: Slot, key_state: KeyState) -> None:
        """Forget a slot with a key that has seen nothing: it is to take nobody's place."""
        if not bound.slotless and slot.is_blank(bound.default):
            self.forget(key_state, address)

    def _evict(self, key_state: KeyState) -> None:
        """Forget the slot with a key that was not used for longest: an agent that invents keys must not fill memory."""
        for address, slot in key_state.slots.items():
            if isinstance(address, int):
                continue
            bound = self._bounds[number_of(address)]
            if bound.remembers and slot.state != bound.default:
                if key_state.forgotten is None:
                    key_state.forgotten = Sketch()
                key_state.forgotten.add(_sketched(bound, address), _SKETCH_BYTES)
            self.forget(key_state, address)
            self._counts.evictions["states"] += 1
            return

    def is_forgotten(self, bound: BoundRule, address: Address, key_state: KeyState) -> bool:
        """Whether the slot of a rule was forgotten at an address, or may have been."""
        forgotten = key_state.forgotten
        return forgotten is not None and bound.remembers and _sketched(bound, address) in forgotten

    def forget(self, key_state: KeyState, address: Address) -> None:
        """Forget what stands at an address."""
        if key_state.slots.pop(address, None) is not None and not isinstance(address, int):
            key_state.keyed -= 1
        key_state.twinned.discard(address)
        key_state.timers.pop(address, None)

    def forget_all(self, key_state: KeyState, rules: Set[int]) -> None:
        """Forget everything that a key state has of these rules."""
        for address in [address for address in key_state.slots if number_of(address) in rules]:
            self.forget(key_state, address)
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

    def restore(self, key_state: KeyState) -> None:
        """Set what is made from the slots of a restored key state: timers, and which of them are of twins."""
        key_state.keyed = sum(not isinstance(address, int) for address in key_state.slots)
        key_state.twinned = {address for address in key_state.slots if self._bounds[number_of(address)].is_twin}
        for address, slot in key_state.slots.items():
            bound = self._bounds[number_of(address)]
            if bound.timer is not None:
                self.set_timer(bound, address, slot.state, key_state)


def state_at(bound: BoundRule, slot: Slot | None) -> State:
    """Return the state in a slot; a new one where there is none, and that of no rule that keeps one otherwise."""
    return NO_STATE if bound.stateless else bound.new_state() if slot is None else slot.state


def _sketched(bound: BoundRule, address: Address) -> int:
    """Return the number of an address for a sketch: that of its rule's tag, which no other policy changes."""
    values = () if isinstance(address, int) else address[1:]
    return sketch_number("\0".join([f"{bound.tag:08x}", *map(str, values)]))
