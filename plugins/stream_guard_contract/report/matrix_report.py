"""Writes a matrix in every report form; the table, Markdown and HTML for people are made here."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stream_guard.reports import code, load_template, visible
from stream_guard_contract.document.loading import Contract
from stream_guard_contract.report.machines import to_github, to_json, to_junit, to_sarif
from stream_guard_contract.report.matrix_texts import exercised, place, title, verdict
from stream_guard_contract.scoring.matrix import BROKEN, Cell, CellState, Matrix, ScenarioReport

_COLOURS: Final = {
    CellState.PASS: "green",
    CellState.FAIL: "bold red",
    CellState.TIMEOUT: "bold red",
    CellState.NOT_APPLICABLE: "dim",
    CellState.INCONCLUSIVE: "yellow",
    CellState.NOT_EXERCISED: "yellow",
}
_MARKS: Final = {
    CellState.PASS: "✅",
    CellState.FAIL: "❌",
    CellState.TIMEOUT: "⌛",
    CellState.NOT_APPLICABLE: "·",
    CellState.INCONCLUSIVE: "❔",
    CellState.NOT_EXERCISED: "💤",
}


def write_matrix(contract: Contract, matrix: Matrix, form: str) -> str:
    """Return the matrix in a form of ``ReportForm``; the contract has the line of each invariant."""
    forms: dict[str, Callable[[], str]] = {
        "table": lambda: to_table(matrix),
        "json": lambda: to_json(matrix),
        "markdown": lambda: to_markdown(matrix),
        "junit": lambda: to_junit(matrix),
        "sarif": lambda: to_sarif(contract, matrix),
        "github": lambda: to_github(contract, matrix),
        "html": lambda: to_html(matrix),
    }
    return forms[form]()


def to_table(matrix: Matrix) -> str:
    """Return the matrix for a terminal: the grid, the reasons of cells that did not pass, and the verdict."""
    written = StringIO()
    parts: list[RenderableType] = [_grid(matrix)]
    explained = [cell for cell in matrix.cells if cell.state not in (CellState.PASS, CellState.NOT_APPLICABLE)]
    if explained:
        parts.append(_reasons(explained))
    parts += [Text(f"{visible(one.name)}: {exercised(one)}") for one in matrix.scenarios if _is_notable(one)]
    parts += [Text(visible(note)) for note in matrix.notes]
    parts.append(Text(verdict(matrix), style="green" if matrix.passed else "bold red"))
    Console(file=written, width=120).print(Group(*parts))
    return written.getvalue().rstrip("\n")


def _is_notable(scenario: ScenarioReport) -> bool:
    return scenario.exercised in ("no", "unknown") or bool(scenario.not_met)


def _grid(matrix: Matrix) -> Table:
    table = Table(title=f"Contract: {visible(matrix.contract)}", title_justify="left")
    table.add_column("invariant")
    table.add_column("severity")
    for scenario in matrix.scenarios:
        table.add_column(Text(visible(scenario.name)))
    for invariant, row in _rows(matrix).items():
        states = (Text(title(cell.state), style=_COLOURS[cell.state]) for cell in row)
        table.add_row(Text(visible(invariant)), row[0].severity, *states)
    return table


def _reasons(cells: list[Cell]) -> Table:
    table = Table(title="Why", title_justify="left")
    for name in ("invariant", "scenario", "state", "reason", "answer", "event"):
        table.add_column(name)
    for cell in cells[:100]:
        texts = (cell.invariant, cell.scenario, title(cell.state), cell.reason, cell.excerpt, place(cell))
        table.add_row(*(Text(visible(text)) for text in texts))
    if len(cells) > 100:
        table.add_row(f"and {len(cells) - 100} more")
    return table


def _rows(matrix: Matrix) -> dict[str, list[Cell]]:
    rows: dict[str, list[Cell]] = {}
    for cell in matrix.cells:
        rows.setdefault(cell.invariant, []).append(cell)
    return rows


def to_markdown(matrix: Matrix) -> str:
    """Return the matrix as a comment for a pull request; texts of agents stand in code spans."""
    mark = "✅" if matrix.passed else "❔" if matrix.passed is None else "❌"
    lines = [f"## {mark} Contract {code(matrix.contract)}", "", verdict(matrix).replace("@", "@\u200b"), ""]
    lines.append("| invariant | severity |" + "".join(f" {code(one.name)} |" for one in matrix.scenarios))
    lines.append("|---|---|" + "---|" * len(matrix.scenarios))
    for invariant, row in _rows(matrix).items():
        states = "".join(f" {_MARKS[cell.state]} {title(cell.state)} |" for cell in row)
        lines.append(f"| {code(invariant)} | {row[0].severity} |{states}")
    failures = [cell for cell in matrix.cells if cell.state in BROKEN]
    if failures:
        lines += ["", f"### Broken: {len(failures)}", ""]
        lines += [
            f"- {code(cell.invariant)} ({cell.severity}) in {code(cell.scenario)}: {code(cell.reason)} "
            f"at {code(place(cell))}: {code(cell.excerpt)}"
            for cell in failures[:20]
        ]
        lines += [f"- and {len(failures) - 20} more"] if len(failures) > 20 else []
    notable = [one for one in matrix.scenarios if _is_notable(one)]
    lines += ["", *(f"- {code(one.name)}: {exercised(one)}" for one in notable)] if notable else []
    lines += ["", *(f"- {code(note)}" for note in matrix.notes)] if matrix.notes else []
    return "\n".join(lines) + "\n"


def to_html(matrix: Matrix) -> str:
    """Return the matrix as one HTML file without scripts or network; texts of agents are escaped."""
    invariants = list(dict.fromkeys((cell.invariant, cell.severity) for cell in matrix.cells))
    by_place = {(cell.invariant, cell.scenario): cell for cell in matrix.cells}
    template = load_template(
        "stream_guard_contract.report", "matrix.html.j2", title_of=title, place=place, exercised=exercised
    )
    return template.render(
        matrix=matrix,
        invariants=invariants,
        by_place=by_place,
        counts=[(state, matrix.count(state)) for state in CellState if matrix.count(state)],
        verdict=verdict(matrix),
    )
