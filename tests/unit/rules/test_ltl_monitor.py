"""The monitor agrees with the meaning of the logic, and refuses a formula that it cannot watch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_guard_rules.shared.ltl import Atom, Formula, FormulaError, Unary, parse
from stream_guard_rules.shared.ltl_monitor import MAX_ATOMS, START, Monitor

from tests.unit.rules.ltl_formulas import FORMULAS


def monitor(text: str) -> Monitor:
    return Monitor(parse(text), lambda name: name in {"a", "b", "c"})


def test_formula_with_too_many_states_is_refused() -> None:
    names = [f"x{number}" for number in range(24)]
    asks = [f"G ({one} -> F {other})" for one, other in zip(names[::2], names[1::2], strict=True)]
    with pytest.raises(FormulaError, match=r"needs more than 1000 states|too large"):
        Monitor(parse(" & ".join(asks)), lambda _name: True)


def test_formula_with_too_many_atoms_is_refused() -> None:
    names = " | ".join(f"x{number}" for number in range(MAX_ATOMS + 1))
    with pytest.raises(FormulaError, match=f"more than {MAX_ATOMS} different atoms"):
        Monitor(parse(names), lambda _name: True)


def test_loss_is_known_at_the_first_turn_that_makes_it_certain() -> None:
    watching = monitor("F a & G !a")
    assert watching.step(START, 0) in watching.lost


def test_victory_is_known_at_the_first_turn_that_makes_it_certain() -> None:
    watching = monitor("F a | G b")
    assert watching.step(START, 0b01) in watching.won
    assert watching.step(START, 0b10) not in watching.won


def test_outcomes_are_the_states_that_unsettled_facts_leave_open() -> None:
    watching = monitor("G (a -> b)")
    after_both = watching.step(START, 0b11)
    assert set(watching.outcomes(START, 0b01, 0b10)) == {after_both, watching.step(START, 0b01)}
    assert set(watching.outcomes(START, 0b01, 0)) <= watching.lost


def holds(formula: Formula, turns: Sequence[frozenset[str]], at: int = 0) -> bool:
    """The meaning of the logic, word by word (LTLf: strong X and U)."""
    if isinstance(formula, Atom):
        return formula.name == "true" or formula.name in turns[at]
    later = range(at, len(turns))
    if isinstance(formula, Unary):
        inner = formula.operand
        if formula.operator == "!":
            return not holds(inner, turns, at)
        if formula.operator == "X":
            return at + 1 < len(turns) and holds(inner, turns, at + 1)
        quantify = all if formula.operator == "G" else any
        return quantify(holds(inner, turns, place) for place in later)
    left, right = formula.left, formula.right
    if formula.operator in ("U", "W"):
        until = any(
            holds(right, turns, place) and all(holds(left, turns, before) for before in range(at, place))
            for place in later
        )
        return until or (formula.operator == "W" and all(holds(left, turns, place) for place in later))
    one, other = holds(left, turns, at), holds(right, turns, at)
    return {"&": one and other, "|": one or other, "->": not one or other}[formula.operator]


TURNS = st.lists(st.frozensets(st.sampled_from("abc")), min_size=1, max_size=7)


@given(FORMULAS, TURNS)
@settings(max_examples=5 * settings().max_examples, deadline=None)
def test_monitor_agrees_with_the_meaning(formula: Formula, turns: list[frozenset[str]]) -> None:
    watching = Monitor(formula, lambda name: name in {"a", "b", "c"})
    state = START
    for count, turn in enumerate(turns, 1):
        facts = sum(1 << bit for bit, atom in enumerate(watching.atoms) if atom in turn)
        state = watching.step(state, facts)
        seen = turns[:count]
        assert (state in watching.accepting) == holds(formula, seen)
        if state in watching.lost:
            assert not holds(formula, turns)
        if state in watching.won:
            assert holds(formula, turns)
