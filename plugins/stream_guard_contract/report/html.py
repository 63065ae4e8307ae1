"""The matrix as one file for a browser: no script, no network, nothing an agent wrote is anything but text."""

from __future__ import annotations

from stream_guard.reports import load_template
from stream_guard_contract.report.wording import exercised, place, title, verdict
from stream_guard_contract.scoring.matrix import Matrix, State


def to_html(matrix: Matrix) -> str:
    """Return the page."""
    invariants = list(dict.fromkeys((cell.invariant, cell.severity) for cell in matrix.cells))
    by_place = {(cell.invariant, cell.scenario): cell for cell in matrix.cells}
    template = load_template(
        "stream_guard_contract.report", "matrix.html.j2", title_of=title, place=place, exercised=exercised
    )
    return template.render(
        matrix=matrix,
        invariants=invariants,
        by_place=by_place,
        counts=[(state, matrix.count(state)) for state in State if matrix.count(state)],
        verdict=verdict(matrix),
    )
