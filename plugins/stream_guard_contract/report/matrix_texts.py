"""Texts that all reports of a matrix share: states, places, exposure of scenarios, and the verdict."""

from __future__ import annotations

from stream_guard.reports import visible
from stream_guard_contract.scoring.matrix import BROKEN, EVALUATED, Cell, CellState, Matrix, ScenarioReport


def title(state: CellState) -> str:
    """Return the state in words."""
    return state.value.replace("_", " ")


def place(cell: Cell) -> str:
    """Return the session and the event that decided a cell."""
    if not cell.session_id:
        return "-"
    return f"{cell.session_id} {cell.event_id}" if cell.event_id else cell.session_id


def verdict(matrix: Matrix) -> str:
    """Return one sentence: whether the contract holds, its score, and what is open."""
    if matrix.score is None:
        return "Nothing was evaluated: there is no score, and no verdict."
    evaluated = sum(cell.state in EVALUATED for cell in matrix.cells)
    summary = f"Score {matrix.score:g} % over {evaluated} of {len(matrix.cells)} cells"
    if matrix.critical_failed:
        broken = dict.fromkeys(
            visible(cell.invariant) for cell in matrix.cells if cell.state in BROKEN and cell.severity == "critical"
        )
        return f"Broken: {', '.join(broken)}. {summary}."
    opened = f", {matrix.open} open" if matrix.open else ""
    return f"Kept: no critical invariant failed. {summary}{opened}."


def exercised(scenario: ScenarioReport) -> str:
    """Return in words whether the declared faults of a scenario reached the agent."""
    if not scenario.sessions:
        return "no session was recorded"
    if scenario.exercised == "no":
        return f"not exercised: the agent never met {', '.join(scenario.not_met)}"
    if scenario.exercised == "unknown":
        return "the recordings do not show whether the agent met the faults"
    if scenario.not_met:
        return f"the agent never met {', '.join(scenario.not_met)}"
    return "calm" if scenario.exercised == "calm" else "exercised"
