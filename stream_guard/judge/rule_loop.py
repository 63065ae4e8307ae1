"""The rules of a plan that need a handler, a state and perhaps a gate: run over an event, one after the other.

What they answer is taken when all have run: no handler sees what comes of another's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, Final, TypeAlias

from stream_guard.judge.session import Slot

Call: TypeAlias = Callable[[Any, Any], Any]
"""A handler, or a gate."""

Step: TypeAlias = tuple[Any, Call, Callable[[], Any] | None, Any]
"""Where the state stands, the handler, what makes a new state, and the rule; nothing makes one where none is kept."""

Answer: TypeAlias = tuple[int, Any, Any]
"""What sort of answer it is, the rule it is from, and the verdict or the exception."""

# Sorts of answers: a verdict, an exception, a gate that might be open.
ANSWERED: Final = 0
RAISED: Final = 1
DOUBTED: Final = 2

Gated: TypeAlias = tuple[
    Call, tuple[Step, ...], tuple[Step, ...], tuple[tuple[Any, Call], ...], tuple[tuple[Any, Callable[[], Any]], ...]
]
"""A gate; the steps behind it; the steps while it is closed; the rules whose condition may become true, with the
condition; and where the states stand whose end is judged once the gate has opened, with what makes a new one."""


class RuleLoop:
    """Steps to run over each event of a sort: those without a gate first."""

    __slots__ = ("_groups", "_no_state", "_ungated")

    def __init__(self, ungated: Sequence[Step], groups: Sequence[Gated], no_state: Any) -> None:
        self._ungated = tuple(ungated)
        self._groups = tuple(groups)
        self._no_state = no_state

    def run(self, event: Any, memory: Set[int], slots: dict[Any, Slot]) -> list[Answer] | None:
        """Return the answers, the one that came first first; None where there is none."""
        answers: list[Answer] = []
        no_state = self._no_state
        for steps in self._choose(event, memory, slots, answers) if self._groups else [self._ungated]:
            for number, handle, make_state, rule in steps:
                if make_state is None:
                    state = no_state
                else:
                    slot = slots.get(number)
                    if slot is None:
                        slot = Slot(make_state())
                        slots[number] = slot
                    state = slot.state
                try:
                    verdict = handle(event, state)
                except Exception as error:  # noqa: BLE001  # a rule that raises must not stop the stream (ADR 0007)
                    answers.append((RAISED, rule, error))
                    continue
                if verdict is not None:
                    answers.append((ANSWERED, rule, verdict))
        return answers or None

    def _choose(
        self, event: Any, memory: Set[int], slots: dict[Any, Slot], doubted: list[Answer]
    ) -> list[tuple[Step, ...]]:
        """Return the steps to run with the gates as they are; note which opened, and those that may be open."""
        chosen = [self._ungated]
        for gate, inside, outside, doubtful, ends in self._groups:
            if gate(event, memory):
                chosen.append(inside)
                for number, new_state in ends:
                    opened = slots.get(number)
                    if opened is None:
                        opened = slots[number] = Slot(new_state())
                    opened.opened = True
                continue
            if outside:
                chosen.append(outside)
            for rule, may_open in doubtful:
                if may_open(event, memory):
                    doubted.append((DOUBTED, rule, None))
        return chosen
