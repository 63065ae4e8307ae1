"""The rules of a plan that need a handler, a state and perhaps a gate: run over an event, one after the other.

What they answer is taken when all have run: no handler sees what comes of another's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, Final, TypeAlias

from stream_guard.judge.key_state import Slot

Call: TypeAlias = Callable[[Any, Any], Any]
"""A handler, or a gate."""

Step: TypeAlias = tuple[Any, Call, Callable[[], Any] | None, Any]
"""Where the state stands, the handler, what makes a new state, and the rule; nothing makes one where none is kept."""

Answer: TypeAlias = tuple[int, Any, Any]
"""What sort of answer it is, the rule or the group of rules it is from, and the verdict or the exception."""

# Sorts of answers: a verdict, an exception, a gate that might be open, a gate that is.
ANSWERED: Final = 0
RAISED: Final = 1
DOUBTED: Final = 2
OPENED: Final = 3

_MOST_CHOSEN: Final = 256  # sets of open gates whose steps are kept

Gated: TypeAlias = tuple[
    Call, tuple[Step, ...], tuple[Step, ...], tuple[Step, ...], tuple[tuple[Any, Call], ...], Any | None
]
"""A gate; the steps behind it without a state, and those with one; the steps while it is closed; the rules whose
condition may become true, with the condition; and what to answer when it is open, if anything."""


class RuleLoop:
    """Steps to run over each event of a sort, those without a state first."""

    __slots__ = ("_chosen", "_groups", "_no_state", "_stateful", "_stateless", "_ungated")

    def __init__(
        self, stateless: Sequence[Step], stateful: Sequence[Step], groups: Sequence[Gated], no_state: Any
    ) -> None:
        self._stateless, self._stateful = tuple(stateless), tuple(stateful)
        self._ungated = self._stateless + self._stateful
        self._groups = tuple(groups)
        self._chosen: dict[int, tuple[Step, ...]] = {}  # by a bit for each gate that is open
        self._no_state = no_state

    def run(self, event: Any, memory: Set[int], slots: dict[Any, Slot]) -> list[Answer] | None:
        """Return the answers, the one that came first first; None where there is none."""
        answers: list[Answer] = []
        opened: list[Answer] = []
        steps = self._choose(event, memory, answers, opened) if self._groups else self._ungated
        find, state = slots.get, self._no_state  # steps without a state come first
        for number, handle, new_state, rule in steps:
            if new_state is not None:
                slot = find(number)
                if slot is None:
                    slot = slots[number] = Slot(new_state())
                state = slot.state
            try:
                verdict = handle(event, state)
            except Exception as error:  # noqa: BLE001  # a rule that raises must not stop the stream (ADR 0007)
                answers.append((RAISED, rule, error))
                continue
            if verdict is not None:
                answers.append((ANSWERED, rule, verdict))
        return [*answers, *opened] if opened else answers or None

    def _choose(self, event: Any, memory: Set[int], doubted: list[Answer], opened: list[Answer]) -> tuple[Step, ...]:
        """Return the steps to run with the gates as they are; note those that may be open, and those that are."""
        bit, gates = 1, 0
        for gate, _, _, _, doubtful, told in self._groups:
            if gate(event, memory):
                gates |= bit
                if told is not None:
                    opened.append((OPENED, told, None))
            else:
                for rule, may_open in doubtful:
                    if may_open(event, memory):
                        doubted.append((DOUBTED, rule, None))
            bit <<= 1
        steps = self._chosen.get(gates)
        return self._arrange(gates) if steps is None else steps

    def _arrange(self, gates: int) -> tuple[Step, ...]:
        """Return the steps to run with these gates open, and keep them for the next time."""
        stateless, stateful = self._stateless, self._stateful
        for number, (_, light, inside, outside, _, _) in enumerate(self._groups):
            if gates >> number & 1:
                stateless += light
                stateful += inside
            else:
                stateful += outside
        if len(self._chosen) >= _MOST_CHOSEN:
            self._chosen.clear()
        steps = self._chosen[gates] = stateless + stateful
        return steps
