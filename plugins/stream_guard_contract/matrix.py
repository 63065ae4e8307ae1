"""The matrix: what became of every invariant in every scenario, and the score that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, TypeAlias

import msgspec


class State(StrEnum):
    """What became of one invariant in one scenario."""

    PASS = "pass"  # noqa: S105  # no secret, a verdict
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"  # its `when` does not hold there
    INCONCLUSIVE = "inconclusive"  # the recording does not say enough to judge
    NOT_EXERCISED = "not_exercised"  # it held, but no declared fault ever reached the agent


EVALUATED = frozenset((State.PASS, State.FAIL))
"""The states that count; all others are in neither sum."""

Exercised: TypeAlias = Literal["calm", "yes", "no", "unknown"]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One invariant in one scenario."""

    invariant: str
    scenario: str
    severity: str
    weight: int
    state: State
    reason: str
    excerpt: str = ""  # of the answer that decided it, without secrets
    session_id: str = ""
    event_id: str = ""
    sessions: int = 0  # that were judged for it


class ScenarioReport(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario: whether what it declares came to pass."""

    name: str
    sessions: int
    exercised: Exercised
    declared: tuple[str, ...] = ()
    not_met: tuple[str, ...] = ()  # declared, and never seen by the agent as far as the recording tells


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """Everything there is to say about one contract and one set of recordings."""

    contract: str
    score: float | None  # None where nothing was evaluated
    passed: bool | None
    critical_failed: bool
    cells: tuple[Cell, ...]
    scenarios: tuple[ScenarioReport, ...]
    notes: tuple[str, ...] = ()  # recordings that could not be used, and why

    def count(self, state: State) -> int:
        """Return how many cells are in the state."""
        return sum(cell.state is state for cell in self.cells)

    @property
    def open(self) -> int:
        """How many cells could have been judged and were not."""
        return self.count(State.INCONCLUSIVE) + self.count(State.NOT_EXERCISED)


def score_of(cells: Sequence[Cell]) -> float | None:
    """Return the severity-weighted share of cells that passed, in per cent; None where none was evaluated."""
    passed, failed = _weight(cells, State.PASS), _weight(cells, State.FAIL)
    return round(passed / (passed + failed) * 100, 2) if passed + failed else None


def _weight(cells: Sequence[Cell], state: State) -> int:
    return sum([cell.weight for cell in cells if cell.state is state])


def has_critical_failure(cells: Sequence[Cell]) -> bool:
    """Whether an invariant that must never break did."""
    return any(cell.severity == "critical" and cell.state is State.FAIL for cell in cells)


def overall(scores: dict[str, float], weights: dict[str, float]) -> float | None:
    """Return the weighted mean over the parts that ran, their weights scaled up to one; None where none ran."""
    total = sum(weights[part] for part in scores)
    if not total:
        return None
    return round(sum(weights[part] * score for part, score in scores.items()) / total, 6)
