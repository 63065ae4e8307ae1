"""Formulas are read by their grammar."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from stream_guard_rules.shared.ltl import Atom, Binary, Formula, FormulaError, Unary, parse

from tests.unit.rules.ltl_formulas import FORMULAS

A, B, C = Atom("a"), Atom("b"), Atom("c")


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


def written(formula: Formula) -> str:
    if isinstance(formula, Atom):
        return formula.name
    if isinstance(formula, Unary):
        return f"{formula.operator} ({written(formula.operand)})"
    return f"({written(formula.left)}) {formula.operator} ({written(formula.right)})"


@given(FORMULAS)
@settings(max_examples=3 * settings().max_examples)
def test_what_is_written_is_what_is_read(formula: Formula) -> None:
    assert parse(written(formula)) == formula
