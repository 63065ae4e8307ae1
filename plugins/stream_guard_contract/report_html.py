"""The matrix as one file for a browser: no script, no network, nothing an agent wrote is anything but text."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template

from stream_guard.reports.safe import visible
from stream_guard_contract.matrix import Matrix, State
from stream_guard_contract.report_words import exercised, place, title, verdict


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"visible": visible, "title_of": title, "place": place, "exercised": exercised}
    return environment.from_string(
        files("stream_guard_contract").joinpath("matrix.html.j2").read_text(encoding="utf-8")
    )


def to_html(matrix: Matrix) -> str:
    """Return the page."""
    invariants = list(dict.fromkeys((cell.invariant, cell.severity) for cell in matrix.cells))
    by_place = {(cell.invariant, cell.scenario): cell for cell in matrix.cells}
    return _template().render(
        matrix=matrix,
        invariants=invariants,
        by_place=by_place,
        counts=[(state, matrix.count(state)) for state in State if matrix.count(state)],
        verdict=verdict(matrix),
    )
