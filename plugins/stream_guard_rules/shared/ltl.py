"""Formulas of linear temporal logic over finite traces, and their parser.

From tight to loose: ``! G F X`` and, about the past, ``previous``, ``formerly``, ``historically``; then ``U``, ``W``
and ``since`` (which do not chain), ``&``, ``|``, ``->`` (which groups to the right). ``within[3] a`` is a in this turn
or one of the next three, ``always[3] a`` in all of them. An atom is a word such as ``tool_call:refund``; a part in
double quotes may have blanks in it: ``text_contains:"thank you"``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

MAX_CHARS: Final = 2000
_MAX_OPERATORS: Final = 80

UnaryOperator: TypeAlias = Literal["!", "G", "F", "X", "Y", "O"]
BinaryOperator: TypeAlias = Literal["U", "W", "S", "&", "|", "->"]

_TOKEN: Final = re.compile(r'\s*(->|[()!&|]|(?:[^\s()!&|"-]|-(?!>)|"[^"]*")+)')
_UNARY: Final = frozenset("!GFX")
_NO_ATOM: Final = frozenset((")", "&", "|", "->", "U", "W", "since"))
_PAST: Final = {"previous": "Y", "formerly": "O"}
_BOUNDED: Final = re.compile(r"(within|always)\[(\d{1,4})\]")
_MOST_AHEAD: Final = 32


class FormulaError(ValueError):
    """A formula cannot be read or watched; the text says where and what to write."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A fact that a turn has or not."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary:
    """Not, always, eventually, next; previous (Y) and formerly (O)."""

    operator: UnaryOperator
    operand: Formula


@dataclass(frozen=True, slots=True)
class Binary:
    """Until, weak until, since (S), and, or, implies."""

    operator: BinaryOperator
    left: Formula
    right: Formula


Formula: TypeAlias = Atom | Unary | Binary


def parse(text: str) -> Formula:
    """Return the formula, or raise FormulaError with the column of what is wrong."""
    if len(text) > MAX_CHARS:
        raise FormulaError(f"the formula has {len(text)} characters and {MAX_CHARS} are allowed; write several rules")
    reader = _FormulaReader(text)
    formula = reader.implication()
    reader.expect_end()
    return formula


class _FormulaReader:
    """Reads a formula from left to right, one method for each level of binding."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._place = 0
        self._operators = 0
        self._end = len(text) + 1

    def implication(self) -> Formula:
        left = self._disjunction()
        if self._take("->"):
            return Binary("->", left, self.implication())
        return left

    def expect_end(self) -> None:
        if self._place == len(self._tokens):
            return
        token, column = self._tokens[self._place]
        if token in {"U", "W", "since"}:
            raise FormulaError(f"column {column}: {token} does not chain; write parentheses around one of the two")
        raise FormulaError(f'column {column}: expected an operator or the end of the formula, found "{token}"')

    def _disjunction(self) -> Formula:
        formula = self._conjunction()
        while self._take("|"):
            formula = Binary("|", formula, self._conjunction())
        return formula

    def _conjunction(self) -> Formula:
        formula = self._until()
        while self._take("&"):
            formula = Binary("&", formula, self._until())
        return formula

    def _until(self) -> Formula:
        left = self._unary()
        if self._take("U"):
            return Binary("U", left, self._unary())
        if self._take("W"):
            return Binary("W", left, self._unary())
        if self._take("since"):
            return Binary("S", left, self._unary())
        return left

    def _unary(self) -> Formula:
        if self._place == len(self._tokens):
            raise FormulaError(f"column {self._end}: the formula ends where an atom was expected")
        token, column = self._tokens[self._place]
        self._place += 1
        if token in _UNARY:
            self._count()
            return Unary(cast("UnaryOperator", token), self._unary())
        if token in _PAST:
            self._count()
            return Unary(cast("UnaryOperator", _PAST[token]), self._unary())
        if token == "historically":  # noqa: S105  # not a password
            self._count()
            return _not(Unary("O", _not(self._unary())))
        if (bounded := _BOUNDED.fullmatch(token)) is not None:
            return self._bounded(bounded[1], int(bounded[2]), column)
        if token == "(":  # noqa: S105  # not a password
            self._count()
            formula = self.implication()
            if not self._take(")"):
                raise FormulaError(f'column {column}: this "(" is never closed')
            return formula
        if token in _NO_ATOM:
            raise FormulaError(f'column {column}: expected an atom, one of ! G F X, or "(", found "{token}"')
        return Atom(token.replace('"', ""))

    def _bounded(self, word: str, turns: int, column: int) -> Formula:
        """Read what must hold in one of the next turns, or in all of them."""
        if turns > _MOST_AHEAD:
            raise FormulaError(f"column {column}: {word}[{turns}] looks too far ahead; {_MOST_AHEAD} turns at most")
        self._count(1 + turns)
        operand = self._unary()
        wanted = operand if word == "within" else _not(operand)
        formula = wanted
        for _ in range(turns):
            formula = Binary("|", wanted, Unary("X", formula))
        return formula if word == "within" else _not(formula)

    def _take(self, token: str) -> bool:
        found = self._place < len(self._tokens) and self._tokens[self._place][0] == token
        if found:
            self._place += 1
            self._count()
        return found

    def _count(self, number: int = 1) -> None:
        """Bound the number of operators, and with it the depth of the formula."""
        self._operators += number
        if self._operators > _MAX_OPERATORS:
            raise FormulaError(
                f"the formula has more than {_MAX_OPERATORS} operators and brackets; write several rules"
            )


def _not(formula: Formula) -> Formula:
    return Unary("!", formula)


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            column = place + len(text[place:]) - len(text[place:].lstrip()) + 1
            raise FormulaError(f"column {column}: a double quote is never closed")
        yield match[1], match.start(1) + 1
        place = match.end()


# Formulas about the past: facts of a turn that follow from one bit for each operator.
#
# The bit of an operator tells whether it held at the turn before. The monitor sees a formula about the past as one more
# atom, and the state does not grow with the trace.

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
        return list(dict.fromkeys(name for found in self._found for name in names_in(found)))

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


def names_in(formula: Formula) -> Iterator[str]:
    """Yield the atoms from left to right."""
    if isinstance(formula, Atom):
        yield formula.name
    elif isinstance(formula, Unary):
        yield from names_in(formula.operand)
    else:
        yield from names_in(formula.left)
        yield from names_in(formula.right)
