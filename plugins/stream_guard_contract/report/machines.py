"""Writes a matrix for machines: JSON, JUnit, SARIF and GitHub annotations."""

from __future__ import annotations

from typing import Final

import msgspec

from stream_guard.reports import (
    JUnitCase,
    JUnitSuite,
    Level,
    SarifResult,
    annotation,
    visible,
    write_junit,
    write_sarif,
)
from stream_guard_contract.document.loading import Contract
from stream_guard_contract.report.matrix_texts import exercised, place, title, verdict
from stream_guard_contract.scoring.matrix import BROKEN, Cell, CellState, Matrix

_LEVELS: Final[dict[str, Level]] = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}


def to_json(matrix: Matrix) -> str:
    """Return the whole matrix as JSON."""
    data = msgspec.to_builtins(matrix) | {"verdict": verdict(matrix)}
    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def to_junit(matrix: Matrix) -> str:
    """Return a suite for each scenario and a case for each cell; cells without a judgement are skipped."""
    suites = [
        JUnitSuite(
            scenario.name,
            f"contract.{scenario.name}",
            [_case(cell) for cell in matrix.cells if cell.scenario == scenario.name],
        )
        for scenario in matrix.scenarios
    ]
    return write_junit("stream-guard contract", suites)


def _case(cell: Cell) -> JUnitCase:
    failed, passed = cell.state in BROKEN, cell.state is CellState.PASS
    skipped = None if failed or passed else f"{title(cell.state)}: {cell.reason}"
    return JUnitCase(cell.invariant, failure=_failure_text(cell) if failed else None, skipped=skipped)


def to_sarif(contract: Contract, matrix: Matrix) -> str:
    """Return the failures, each at the line of its invariant in the contract's file."""
    results = [
        SarifResult(
            cell.invariant,
            _LEVELS[cell.severity],
            f"{cell.scenario}: {_failure_text(cell)}",
            contract.places.get(cell.invariant),
            {"cell": f"{cell.invariant}/{cell.scenario}"},
        )
        for cell in matrix.cells
        if cell.state in BROKEN
    ]
    return write_sarif(results, [invariant.id for invariant in contract.invariants])


def to_github(contract: Contract, matrix: Matrix) -> str:
    """Return a GitHub annotation for each failure and for each scenario that was not exercised."""
    lines = [
        annotation(
            _LEVELS[cell.severity],
            f"{cell.invariant} in {cell.scenario}",
            _failure_text(cell),
            contract.places.get(cell.invariant),
        )
        for cell in matrix.cells
        if cell.state in BROKEN
    ]
    lines += [
        annotation("warning", f"scenario {one.name}", exercised(one), None)
        for one in matrix.scenarios
        if one.exercised == "no"
    ]
    return "\n".join(lines)


def _failure_text(cell: Cell) -> str:
    excerpt = f' Answer: "{cell.excerpt}"' if cell.excerpt else ""
    return visible(f"{cell.reason} ({place(cell)}).{excerpt}")
