"""The rules of a plan that need a handler, a state and perhaps a gate: run over an event, one after the other.

What they answer is taken when all have run: no handler sees what comes of another's answer. ``rule_loop.c`` is the
compiled build's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, Final, TypeAlias

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


Gated: TypeAlias = tuple[
    Call, tuple[str, str, Any] | None, Sequence[Step], int, Sequence[Step], tuple[tuple[Any, Call], ...], Any
]
"""A gate, a shortcut to its answer, the steps inside, how many of those keep no state (they come first), the steps
outside, the rules for which a closed gate might be open with what tells so, and what to answer when it is open."""


class RuleLoop:
    """Steps to run over each event of a sort: those without a state first, of which there are ``stateless``."""

    __slots__ = ("_always", "_groups", "_light", "_no_state", "_steps")

    def __init__(self, steps: Sequence[Step], stateless: int, groups: Sequence[Gated], no_state: Any, /) -> None:
        self._light, self._steps = tuple(steps[:stateless]), tuple(steps[stateless:])
        self._always = self._light + self._steps
        self._groups = tuple(
            (gate, tuple(inside[:light]), tuple(inside[light:]), tuple(outside), doubtful, told)
            for gate, _, inside, light, outside, doubtful, told in groups
        )
        self._no_state = no_state

    def run(
        self, event: Any, memory: Set[int], states: dict[Any, Any], agent: str, labels: dict[str, str], /
    ) -> list[Answer] | None:
        """Return the answers, the one that came first first; None where there is none."""
        del agent, labels  # for shortcuts
        answers: list[Answer] = []
        opened: list[Answer] = []
        light: tuple[Step, ...] = ()
        chosen: tuple[Step, ...] = ()
        for gate, stateless, inside, outside, doubtful, told in self._groups:
            if gate(event, memory):
                light += stateless
                chosen += inside
                if told is not None:
                    opened.append((OPENED, told, None))
                continue
            chosen += outside
            if doubtful:
                answers += [(DOUBTED, rule, None) for rule, may_open in doubtful if may_open(event, memory)]
        steps = self._light + light + self._steps + chosen if light or chosen else self._always
        no_state = self._no_state
        for number, handle, new_state, rule in steps:
            if new_state is None:
                state = no_state
            elif (state := states.get(number)) is None:
                state = states[number] = new_state()
            try:
                verdict = handle(event, state)
            except Exception as error:  # noqa: BLE001  # a rule that raises must not stop the stream (ADR 0007)
                answers.append((RAISED, rule, error))
                continue
            if verdict is not None:
                answers.append((ANSWERED, rule, verdict))
        return [*answers, *opened] if opened else answers or None
