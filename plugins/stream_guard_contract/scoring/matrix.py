"""The matrix: the state of every invariant in every scenario, and the score."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Literal, TypeAlias

import msgspec


class CellState(StrEnum):
    """The state of one cell."""

    PASS = "pass"  # noqa: S105  # no secret, a verdict
    FAIL = "fail"
    TIMEOUT = "timeout"  # the agent gave no answer in time: it counts as a failure, and says nothing of the invariant
    NOT_APPLICABLE = "not_applicable"  # its `when` does not hold there
    INCONCLUSIVE = "inconclusive"  # the recording leaves out what the judgement needs
    NOT_EXERCISED = "not_exercised"  # it held, but no declared fault ever reached the agent


# Before Python 3.12 an enum member is slower to look up than a module name, and every cell is asked.
_PASS: Final = CellState.PASS

BROKEN: Final = frozenset((CellState.FAIL, CellState.TIMEOUT))
"""The states of a cell that does not hold."""

EVALUATED: Final = BROKEN | {CellState.PASS}
"""The states that count in the score."""

Exercised: TypeAlias = Literal["calm", "yes", "no", "unknown"]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One invariant in one scenario."""

    invariant: str
    scenario: str
    severity: str
    weight: int
    state: CellState
    reason: str
    excerpt: str = ""  # of the answer that decided it, without secrets
    session_id: str = ""
    event_id: str = ""
    sessions: int = 0  # that were judged for it


class ScenarioReport(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario: its declared faults, and whether the agent met them."""

    name: str
    sessions: int
    exercised: Exercised
    declared: tuple[str, ...] = ()
    not_met: tuple[str, ...] = ()  # declared faults that the agent did not meet, as the recordings show


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """The result of scoring one contract on one set of recordings."""

    contract: str
    score: float | None  # None where nothing was evaluated
    passed: bool | None
    critical_failed: bool
    cells: tuple[Cell, ...]
    scenarios: tuple[ScenarioReport, ...]
    notes: tuple[str, ...] = ()  # recordings that could not be used, and why

    def count(self, state: CellState) -> int:
        """Return how many cells are in the state."""
        return sum(cell.state is state for cell in self.cells)

    @property
    def open(self) -> int:
        """The number of cells that apply but could not be judged."""
        return self.count(CellState.INCONCLUSIVE) + self.count(CellState.NOT_EXERCISED)


def score_of(cells: Sequence[Cell]) -> float | None:
    """Return the severity-weighted share of cells that passed, in per cent; None where none was evaluated."""
    passed = failed = 0
    for cell in cells:
        if cell.state is _PASS:
            passed += cell.weight
        elif cell.state in BROKEN:
            failed += cell.weight
    return round(passed / (passed + failed) * 100, 2) if passed + failed else None


def has_critical_failure(cells: Sequence[Cell]) -> bool:
    """Whether a critical invariant failed."""
    return not BROKEN.isdisjoint([cell.state for cell in cells if cell.severity == "critical"])


def overall(scores: dict[str, float], weights: dict[str, float]) -> float | None:
    """Return the weighted mean over the parts that ran, with their weights scaled to sum to 1; None without any."""
    total = sum(weights[part] for part in scores)
    if not total:
        return None
    return round(sum(weights[part] * score for part, score in scores.items()) / total, 6)
