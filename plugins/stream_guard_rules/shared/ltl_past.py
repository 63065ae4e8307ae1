"""Formulas about the past: facts of a turn that follow from one bit for each operator.

The bit of an operator tells whether it held at the turn before. The monitor sees a formula about the past as one more
atom, and the state does not grow with the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stream_guard_rules.shared.ltl import Atom, Binary, Formula, FormulaError, Unary

PAST_PREFIX: Final = "\x00past:"
"""Begins the atoms that stand for formulas about the past; no written atom does."""

_MOST_OPERATORS: Final = 32
_UNARY_PAST: Final = frozenset("YO")


class PastFormulas:
    """The formulas about the past of one formula, and the formula with atoms in their place."""

    def __init__(self, formula: Formula) -> None:
        self._found: list[Formula] = []
        self._operators: dict[Formula, int] = {}
        self.formula = self._replace(formula)
        for found in self._found:
            self._collect(found)
        if len(self._operators) > _MOST_OPERATORS:
            raise FormulaError(f"the formula has more than {_MOST_OPERATORS} operators about the past")

    @property
    def atoms(self) -> Sequence[str]:
        """The names that stand for formulas about the past, in order."""
        return [f"{PAST_PREFIX}{number}" for number in range(len(self._found))]

    @property
    def names(self) -> list[str]:
        """The atoms that formulas about the past read."""
        return list(dict.fromkeys(name for found in self._found for name in _names(found)))

    def step(self, facts: Mapping[str, bool], before: int) -> tuple[int, list[bool]]:
        """Return the bits after a turn with these facts, and which formulas about the past hold at it."""
        values: dict[Formula, bool] = {}
        holds = [self._value(found, facts, before, values) for found in self._found]
        after = 0
        for formula, number in self._operators.items():
            # "Previous" keeps the value of its operand, the other operators keep their own.
            kept = formula.operand if isinstance(formula, Unary) and formula.operator == "Y" else formula
            if self._value(kept, facts, before, values):
                after |= 1 << number
        return after, holds

    def _value(self, formula: Formula, facts: Mapping[str, bool], before: int, values: dict[Formula, bool]) -> bool:
        known = values.get(formula)
        if known is None:
            known = values[formula] = self._evaluate(formula, facts, before, values)
        return known

    def _evaluate(self, formula: Formula, facts: Mapping[str, bool], before: int, values: dict[Formula, bool]) -> bool:
        if isinstance(formula, Atom):
            return formula.name == "true" or facts.get(formula.name, False)
        held_before = formula in self._operators and bool(before >> self._operators[formula] & 1)
        if isinstance(formula, Unary):
            if formula.operator == "Y":
                return held_before
            inner = self._value(formula.operand, facts, before, values)
            return not inner if formula.operator == "!" else inner or held_before
        right = self._value(formula.right, facts, before, values)
        left = self._value(formula.left, facts, before, values)
        if formula.operator == "S":
            return right or (left and held_before)
        if formula.operator == "&":
            return left and right
        return (left or right) if formula.operator == "|" else (not left or right)

    def _replace(self, formula: Formula) -> Formula:
        if _is_past(formula):
            if formula not in self._found:
                self._found.append(formula)
            return Atom(f"{PAST_PREFIX}{self._found.index(formula)}")
        if isinstance(formula, Unary):
            return Unary(formula.operator, self._replace(formula.operand))
        if isinstance(formula, Binary):
            return Binary(formula.operator, self._replace(formula.left), self._replace(formula.right))
        return formula

    def _collect(self, formula: Formula) -> None:
        """Number the operators about the past; refuse what lies ahead inside of them."""
        if isinstance(formula, Atom):
            return
        if _is_past(formula):
            self._operators.setdefault(formula, len(self._operators))
        elif formula.operator not in {"!", "&", "|", "->"}:
            raise FormulaError(f"{formula.operator} looks ahead and stands inside an operator about the past")
        for inner in [formula.operand] if isinstance(formula, Unary) else [formula.left, formula.right]:
            self._collect(inner)


def _is_past(formula: Formula) -> bool:
    if isinstance(formula, Unary):
        return formula.operator in _UNARY_PAST
    return isinstance(formula, Binary) and formula.operator == "S"


def _names(formula: Formula) -> list[str]:
    if isinstance(formula, Atom):
        return [formula.name]
    inner = [formula.operand] if isinstance(formula, Unary) else [formula.left, formula.right]
    return [name for one in inner for name in _names(one)]
