"""Budgets of questions, by day: what a call may cost at most is taken before it is made, and the rest given back.

A process that is killed in between has spent what it took: a budget may be used up too early, and is never exceeded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from math import ceil
from typing import Final, NamedTuple

from stream_guard.history.alert_rows import column
from stream_guard.history.database import Statements
from stream_guard.settings import JudgeSettings

NANOS: Final = 1_000_000_000  # of a dollar: budgets are kept in whole numbers, so that nothing is lost in sums
_INSTRUCTIONS: Final = 4096  # bytes around a question that an endpoint counts too


class Budget(NamedTuple):
    """What may be spent in a day, by a rule, by a tenant, or in all; None: no bound of that sort."""

    scope: str
    name: str
    calls: int | None
    dollars: float | None

    def __str__(self) -> str:
        return f"the budget of {self.scope} {self.name}".rstrip()


def day_of(now: float) -> str:
    """Return the day that a time belongs to, in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(now))


def worst_case(words: str, excerpt: Sequence[str], settings: JudgeSettings) -> int:
    """Return what a question costs at most, in nanos: no tokenizer makes more tokens than there are bytes."""
    asked = len(json.dumps([words, excerpt])) + _INSTRUCTIONS
    return nanos((asked * settings.input_price + settings.max_tokens * settings.output_price) / 1e6)


def nanos(dollars: float) -> int:
    """Return an amount in nanos, rounded up."""
    return ceil(round(dollars * NANOS, 3))


def reserve(statements: Statements, budgets: Sequence[Budget], day: str, amount: int) -> str:
    """Take a call and an amount out of all budgets, or out of none; return what stands against it."""
    if problem := objection(statements, budgets, day, amount):
        return problem
    for budget in budgets:
        statements.run(
            "INSERT INTO sg_budgets VALUES (?, ?, ?, 1, ?) ON CONFLICT (scope, name, day) DO UPDATE "
            "SET calls = sg_budgets.calls + 1, nanos = sg_budgets.nanos + excluded.nanos",
            budget.scope,
            column(budget.name),
            day,
            amount,
        )
    return ""


def objection(statements: Statements, budgets: Sequence[Budget], day: str, amount: int) -> str:
    """Return why a call that may cost so much is not to be made; empty where it may be."""
    for budget in budgets:
        calls, spent = _spent(statements, budget, day)
        if budget.calls is not None and calls + 1 > budget.calls:
            return f"{budget} is used up for {day}: {budget.calls} calls"
        if budget.dollars is not None and spent + amount > budget.dollars * NANOS:
            return f"{budget} does not allow this call on {day}: ${spent / NANOS:.4f} of ${budget.dollars:g} are spent"
    return ""


def give_back(statements: Statements, budgets: Sequence[Budget], day: str, amount: int) -> None:
    """Correct what was taken for a call by what it did not cost, or cost beyond the worst case."""
    for budget in budgets:
        statements.run(
            "UPDATE sg_budgets SET nanos = nanos - ? WHERE scope = ? AND name = ? AND day = ?",
            amount,
            budget.scope,
            column(budget.name),
            day,
        )


def _spent(statements: Statements, budget: Budget, day: str) -> tuple[int, int]:
    rows = statements.run(
        "SELECT calls, nanos FROM sg_budgets WHERE scope = ? AND name = ? AND day = ?",
        budget.scope,
        column(budget.name),
        day,
    )
    return (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)
