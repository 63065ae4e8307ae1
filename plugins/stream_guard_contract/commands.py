"""The commands ``contract validate``, ``score`` and ``ci``, and the steps that ``contract run`` shares with them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_guard import SettingsError
from stream_guard.commands import (
    FINDINGS,
    INCONCLUSIVE,
    RecordingReader,
    Reports,
    ReportTarget,
    SettingsFile,
    SourceFormat,
    load_plugins,
    print_text,
    report_target,
    require_extra,
    write_report,
)

if TYPE_CHECKING:
    from stream_guard import Registry, Settings
    from stream_guard_contract.document.loading import Contract
    from stream_guard_contract.scoring.matrix import Matrix

DEFAULT_FILE = Path("flakestorm.yaml")


class MatrixForm(StrEnum):
    """How a matrix is printed: as its score alone, or in a form of ``ReportForm``, which an enum cannot extend."""

    NUMBER = "number"
    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"
    HTML = "html"


ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="The contract: a flakestorm.yaml, version 2.0; the same as FILE.")
]
ContractFile = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help=f"The contract; default: {DEFAULT_FILE}.", show_default=False),
]
Traces = Annotated[
    list[str], typer.Option("--traces", "-t", help="Recorded sessions, labelled by scenario; may be repeated.")
]
MinScore = Annotated[float, typer.Option(min=0.0, max=100.0, help="A lower score, in per cent, makes the exit code 1.")]
AllowInconclusive = Annotated[
    bool, typer.Option("--allow-inconclusive", help="Exit 0 although not every cell could be judged.")
]


def validate(
    file: ContractFile = None,
    config: ConfigFile = None,
    settings_file: SettingsFile = None,
) -> None:
    """Say what is wrong with a contract, all of it, with line and column; exit 2 when it cannot be used."""
    named = contract_file(file, config)
    contract = load(named, load_plugins(settings_file)[1])
    cells = len(contract.invariants) * len(contract.scenarios)
    typer.echo(f"{named}: {len(contract.invariants)} invariants in {len(contract.scenarios)} scenarios, {cells} cells")


def score_command(  # noqa: PLR0913, PLR0917  # as many as a user may say
    traces: Traces,
    file: ContractFile = None,
    config: ConfigFile = None,
    form: Annotated[MatrixForm, typer.Option("--format", help="How to print the result.")] = MatrixForm.NUMBER,
    reports: Reports = None,
    min_score: MinScore = 0.0,
    source_format: SourceFormat = "auto",
    allow_inconclusive: AllowInconclusive = False,
    settings_file: SettingsFile = None,
) -> None:
    """Print the score of recorded sessions; exit 1 when the contract is broken, 4 when nothing could be judged."""
    settings, registry, targets = prepare(settings_file, reports)
    contract = load(contract_file(file, config), registry)
    matrix, unread = score_traces(contract, traces, source_format, registry, settings)
    publish(contract, matrix, form, targets)
    exit_for(matrix, min_score, unread, allow_inconclusive=allow_inconclusive)


def ci_command(  # noqa: PLR0913, PLR0917  # as many as a user may say
    traces: Traces,
    file: ContractFile = None,
    config: ConfigFile = None,
    part: Annotated[
        list[str] | None,
        typer.Option("--part", help="What another tool measured, from 0 to 1: mutation=0.8, chaos=..., replay=..."),
    ] = None,
    reports: Reports = None,
    min_score: MinScore = 0.0,
    source_format: SourceFormat = "auto",
    allow_inconclusive: AllowInconclusive = False,
    settings_file: SettingsFile = None,
) -> None:
    """Print every part's score and the overall one; exit 1 when the contract is broken or a part is too low."""
    from stream_guard_contract.scoring.matrix import overall

    settings, registry, targets = prepare(settings_file, reports)
    scores = dict(read_part(text) for text in part or ())
    contract = load(contract_file(file, config), registry)
    matrix, unread = score_traces(contract, traces, source_format, registry, settings)
    publish(contract, matrix, None, targets)
    if matrix.score is not None:
        scores["contract"] = matrix.score / 100
    weights = contract.scoring.model_dump()
    total = overall(scores, weights)
    for name in weights:
        typer.echo(f"{name}: {_percent(scores.get(name))}")
    typer.echo(f"overall: {_percent(total)}")
    low = [
        name for name, value in {**scores, "overall": total}.items() if value is not None and value * 100 < min_score
    ]
    if low:
        typer.echo(f"under {min_score:g} %: {', '.join(low)}", err=True)
    exit_for(matrix, min_score, unread, allow_inconclusive=allow_inconclusive, too_low=bool(low))


def contract_file(file: Path | None, config: Path | None) -> Path:
    """Return the contract that the argument or the option names; SettingsError where both do."""
    if file is not None and config is not None:
        raise SettingsError(f"the contract is named twice: {file} and --config {config}; leave one of them out")
    return file or config or DEFAULT_FILE


def prepare(settings_file: Path | None, reports: Sequence[str] | None) -> tuple[Settings, Registry, list[ReportTarget]]:
    """Return settings, registry and report files, or raise SettingsError before anything is judged."""
    settings, registry = load_plugins(settings_file)
    return settings, registry, [report_target(text) for text in reports or ()]


def load(config: Path, registry: Registry) -> Contract:
    """Return the contract; its warnings go to standard error."""
    from stream_guard_contract.document.loading import load_contract

    contract = load_contract(config, registry)
    for warning in contract.warnings:
        typer.echo(str(warning), err=True)
    return contract


def score_traces(
    contract: Contract, traces: Sequence[str], source_format: str, registry: Registry, settings: Settings
) -> tuple[Matrix, int]:
    """Return the matrix of recorded sessions, and the number of records that could not be read."""
    from stream_guard_contract.scoring.score import score

    reader = RecordingReader(source_format, registry, settings)
    events = (event for trace in traces for event in reader.read(trace))
    matrix = score(contract, events, registry)
    for line in reader.summary():
        typer.echo(line, err=True)
    return matrix, reader.unread


def publish(contract: Contract, matrix: Matrix, form: MatrixForm | None, targets: Sequence[ReportTarget]) -> None:
    """Print the matrix and write the reports; called before the exit code, so that a failed build shows its reasons."""
    if targets or form not in (None, MatrixForm.NUMBER):
        require_extra("analysis", "numpy", "rapidfuzz", "rfc8785", "jinja2")
        from stream_guard_contract.report.matrix_report import write_matrix

        for kind, file in targets:
            write_report(file, write_matrix(contract, matrix, kind))
        if form not in (None, MatrixForm.NUMBER):
            print_text(write_matrix(contract, matrix, form.value).rstrip("\n"))
    if form is MatrixForm.NUMBER and matrix.score is not None:
        typer.echo(f"{matrix.score:g}")
    for note in matrix.notes:
        typer.echo(note, err=True)


def exit_for(
    matrix: Matrix, min_score: float, unread: int, *, allow_inconclusive: bool = False, too_low: bool = False
) -> None:
    """Raise typer.Exit with the exit code of the matrix, and print the reason on standard error; return for 0."""
    if matrix.score is None:
        typer.echo("nothing was evaluated, so there is no score", err=True)
        raise typer.Exit(INCONCLUSIVE)
    if matrix.critical_failed:
        broken = dict.fromkeys(cell.invariant for cell in matrix.cells if cell.state == "fail" and cell.weight == 3)
        typer.echo(f"the contract is broken: {', '.join(map(_visible, broken))}", err=True)
        raise typer.Exit(FINDINGS)
    if too_low or matrix.score < min_score:
        typer.echo(f"the score is {matrix.score:g} %, and {min_score:g} % are asked for", err=True)
        raise typer.Exit(FINDINGS)
    if (matrix.open or unread or matrix.notes) and not allow_inconclusive:
        typer.echo(f"inconclusive: {_open_reasons(matrix, unread)}; --allow-inconclusive accepts that", err=True)
        raise typer.Exit(INCONCLUSIVE)


def read_part(text: str) -> tuple[str, float]:
    """Return the part and the score of ``NAME=NUMBER``; SettingsError for any other text."""
    name, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if name not in ("mutation", "chaos", "replay") or not 0 <= value <= 1:
        raise SettingsError(f"--part {text}: write mutation, chaos or replay, =, and a number from 0 to 1")
    return name, value


def _open_reasons(matrix: Matrix, unread: int) -> str:
    reasons = [
        *([f"{matrix.open} of {len(matrix.cells)} cells could not be judged"] if matrix.open else []),
        *([f"{unread} records could not be read"] if unread else []),
        *(["some sessions were not used"] if matrix.notes else []),
    ]
    return ", ".join(reasons)


def _visible(text: str) -> str:
    return text if text.isprintable() else ascii(text)


def _percent(value: float | None) -> str:
    return "not run" if value is None else f"{value * 100:.2f} %"
