"""Writes a matrix for people and machines."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Final

import msgspec
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stream_guard.reports import (
    JUnitCase,
    JUnitSuite,
    Level,
    SarifResult,
    annotation,
    code,
    load_template,
    visible,
    write_junit,
    write_sarif,
)
from stream_guard_contract.document import Contract
from stream_guard_contract.scoring.matrix import BROKEN, EVALUATED, Cell, CellState, Matrix, ScenarioReport

# Texts that all reports of a matrix share: states, places, exposure of scenarios, and the verdict.


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


# Writes a matrix for machines: JSON, JUnit, SARIF and GitHub annotations.

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


# Writes a matrix in every report form; the table, Markdown and HTML for people are made here.

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
        "stream_guard_contract", "matrix.html.j2", title_of=title, place=place, exercised=exercised
    )
    return template.render(
        matrix=matrix,
        invariants=invariants,
        by_place=by_place,
        counts=[(state, matrix.count(state)) for state in CellState if matrix.count(state)],
        verdict=verdict(matrix),
    )
