"""Formulas are read by their grammar, and the monitor agrees with the meaning of the logic."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_guard_rules.ltl import Atom, Binary, Formula, FormulaError, Unary, parse
from stream_guard_rules.monitor import MAX_ATOMS, START, Monitor

A, B, C = Atom("a"), Atom("b"), Atom("c")


def monitor(text: str) -> Monitor:
    return Monitor(parse(text), lambda name: name in {"a", "b", "c"})


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("a", A),
        ("!a", Unary("!", A)),
        ("G F a", Unary("G", Unary("F", A))),
        ("G!a", Unary("G", Unary("!", A))),
        ("Ga", Atom("Ga")),
        ("!a U b", Binary("U", Unary("!", A), B)),
        ("a U b & c", Binary("&", Binary("U", A, B), C)),
        ("a & b | c", Binary("|", Binary("&", A, B), C)),
        ("a | b & c", Binary("|", A, Binary("&", B, C))),
        ("a -> b -> c", Binary("->", A, Binary("->", B, C))),
        ("a | b -> c", Binary("->", Binary("|", A, B), C)),
        ("(a U b) U c", Binary("U", Binary("U", A, B), C)),
        ("a U (b W c)", Binary("U", A, Binary("W", B, C))),
        ("a->b", Binary("->", A, B)),
        ("tool_call:get-order.v2", Atom("tool_call:get-order.v2")),
        ('text_contains:"thank you (all)" & a', Binary("&", Atom("text_contains:thank you (all)"), A)),
        ("  ( a )  ", A),
    ],
)
def test_formula_is_read_by_its_grammar(text: str, formula: Formula) -> None:
    assert parse(text) == formula


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "column 1: the formula ends where an atom was expected"),
        ("a U b U c", "column 7: U does not chain; write parentheses"),
        ("a U b W c", "column 7: W does not chain"),
        ("a b", 'column 3: expected an operator or the end of the formula, found "b"'),
        ("a &", "column 4: the formula ends"),
        ("& a", 'column 1: expected an atom, one of ! G F X, or "\\(", found "&"'),
        ("G (a", 'column 3: this "\\(" is never closed'),
        ("a)", 'column 2: expected an operator or the end of the formula, found "\\)"'),
        ("a && b", 'column 4: expected an atom.*found "&"'),
        ('a & "b', "column 5: a double quote is never closed"),
        ("(" * 500 + "a" + ")" * 500, "more than 80 operators and brackets"),
        ("!" * 500 + "a", "more than 80 operators"),
        ("a & " * 499 + "a", "more than 80 operators"),
        ("a" * 3000, "has 3000 characters and 2000 are allowed"),
    ],
)
def test_wrong_formula_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(FormulaError, match=why):
        parse(text)


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


FORMULAS: st.SearchStrategy[Formula] = st.recursive(
    st.sampled_from(["a", "b", "c", "true", "false", "unknown"]).map(Atom),
    lambda inner: st.one_of(
        st.builds(Unary, st.sampled_from(["!", "G", "F", "X"]), inner),
        st.builds(Binary, st.sampled_from(["U", "W", "&", "|", "->"]), inner, inner),
    ),
    max_leaves=6,
)
TURNS = st.lists(st.frozensets(st.sampled_from("abc")), min_size=1, max_size=7)


def written(formula: Formula) -> str:
    if isinstance(formula, Atom):
        return formula.name
    if isinstance(formula, Unary):
        return f"{formula.operator} ({written(formula.operand)})"
    return f"({written(formula.left)}) {formula.operator} ({written(formula.right)})"


@given(FORMULAS)
@settings(max_examples=200)
def test_what_is_written_is_what_is_read(formula: Formula) -> None:
    assert parse(written(formula)) == formula


@given(FORMULAS, TURNS)
@settings(max_examples=500, deadline=None)
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
