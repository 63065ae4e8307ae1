"""The group of commands ``contract``: validates, scores and runs."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from stream_guard import Decoder, Event, SettingsError
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
    from stream_guard_contract.document import AgentSection, Contract
    from stream_guard_contract.driver import AgentSetup, PlannedSession
    from stream_guard_contract.scoring.matrix import Matrix

# The commands ``contract validate``, ``score`` and ``ci``, and the steps that ``contract run`` shares with them.

DEFAULT_FILE = Path("flakestorm.yaml")


MatrixForm: TypeAlias = Literal["number", "table", "json", "markdown", "junit", "sarif", "github", "html"]
"""How a matrix is printed: as its score alone, or in a form of ``ReportForm``."""

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
    form: Annotated[MatrixForm, typer.Option("--format", help="How to print the result.")] = "number",
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
    from stream_guard_contract.document import load_contract

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
    if targets or form not in (None, "number"):
        require_extra("analysis", "numpy", "rapidfuzz", "rfc8785", "jinja2")
        from stream_guard_contract.report import write_matrix

        for kind, file in targets:
            write_report(file, write_matrix(contract, matrix, kind))
        if form not in (None, "number"):
            print_text(write_matrix(contract, matrix, form).rstrip("\n"))
    if form == "number" and matrix.score is not None:
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


# ``contract run``: drives an agent through every scenario of a contract, records the sessions, and scores them.

_PROGRESS_SECONDS: Final = 10.0  # between two progress lines that are no bar


def run_command(  # noqa: PLR0913, PLR0917  # as many as a user may say
    file: ContractFile = None,
    config: ConfigFile = None,
    agents: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            help="The agent, instead of the file's: module:callable or an address; several addresses work at once.",
        ),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option("--tool", help="A tool that stands behind the proxy: NAME=ADDRESS; may be repeated."),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option("--llm", help="The model behind the proxy: an address such as http://127.0.0.1:9000/v1."),
    ] = None,
    proxy_port: Annotated[int, typer.Option(min=0, max=65535, help="Where the proxies listen; 0 is any port.")] = 0,
    scenario: Annotated[
        list[str] | None, typer.Option("--scenario", help="Only this scenario; may be repeated.")
    ] = None,
    record: Annotated[Path | None, typer.Option(help="Keep the recorded sessions in this new file.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed makes the same faults come on the same calls.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, max=1000, help="How often each prompt is asked.")] = 1,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes, each with an agent of its own.")] = 1,
    form: Annotated[MatrixForm, typer.Option("--format", help="How to print the result.")] = "table",
    reports: Reports = None,
    min_score: MinScore = 0.0,
    allow_inconclusive: AllowInconclusive = False,
    settings_file: SettingsFile = None,
) -> None:
    """Ask an agent everything under every scenario; exit 1 when the contract is broken, 4 when it cannot be told."""
    from stream_guard_contract.scoring.score import score

    _, registry, targets = prepare(settings_file, reports)
    contract = only(load(contract_file(file, config), registry), scenario or ())
    setups = make_setups(contract, agents or (), tool or (), llm, proxy_port, workers)
    decoder = registry.decoders["native"]()
    plan = plan_run(contract, seed, repeat)
    began = time.monotonic()
    events = record_sessions(setups, plan, record, decoder)
    kept = f"; recorded in {record}" if record is not None else ""
    typer.echo(f"{len(plan)} sessions in {time.monotonic() - began:.1f} s, seed {seed}{kept}", err=True)
    matrix = score(contract, events, registry)
    publish(contract, matrix, form, targets)
    exit_for(matrix, min_score, 0, allow_inconclusive=allow_inconclusive)


def only(contract: Contract, names: Sequence[str]) -> Contract:
    """Return the contract with only the named scenarios; without names, with all of them."""
    known = [scenario.name for scenario in contract.scenarios]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SettingsError(f"--scenario {unknown[0]}: the contract has {', '.join(known) or 'no scenario'}")
    chosen = tuple(scenario for scenario in contract.scenarios if not names or scenario.name in names)
    return replace(contract, scenarios=chosen)


def make_setups(
    contract: Contract, agents: Sequence[str], tools: Sequence[str], llm: str | None, proxy_port: int, workers: int = 1
) -> list[AgentSetup]:
    """Return how each worker reaches its agent, or raise SettingsError."""
    from stream_guard_contract.agents.http_messages import check_upstream
    from stream_guard_contract.driver import AgentSetup, worker_setups

    named = dict(_tool(text) for text in tools)
    setup = AgentSetup(
        agent=_agent(contract, agents[0] if agents else None),
        tools={name: check_upstream(address, "--tool") for name, address in named.items()},
        model=check_upstream(llm, "--llm") if llm else "",
        port=proxy_port,
    )
    if setup.is_http and (setup.tools or setup.model) and not proxy_port:
        raise SettingsError("an HTTP agent has to know where the proxies are; name their port with --proxy-port")
    return worker_setups(setup, workers, agents)


def _agent(contract: Contract, name: str | None) -> AgentSection:
    from stream_guard_contract.document import AgentSection

    agent = contract.agent
    if name is not None:
        update = {"endpoint": name, "type": "http" if "://" in name else "python"}
        agent = agent.model_copy(update=update) if agent is not None else AgentSection.model_validate(update)
    if agent is None:
        raise SettingsError(f"{contract.file} names no agent; add `agent: {{endpoint: ...}}`, or say --agent")
    return agent


def plan_run(contract: Contract, seed: int, repeat: int) -> list[PlannedSession]:
    """Return the sessions of a new run; the ids are unique to the run."""
    from stream_guard_contract.driver import plan_sessions

    return plan_sessions(contract, run_id=f"run-{secrets.token_hex(4)}", seed=seed, repeat=repeat)


def record_sessions(
    setups: Sequence[AgentSetup], plan: Sequence[PlannedSession], record: Path | None, decoder: Decoder
) -> list[Event]:
    """Run all sessions, write them to ``record`` where it is given, and return their events."""
    from stream_guard_contract.recording import TraceFile, decode_events

    file = TraceFile(record) if record is not None else None
    events: list[Event] = []
    try:
        with progress(len(plan)) as session_done:
            for lines in _sessions(setups, plan):
                if file is not None:
                    file.write([lines])
                # Scored is what was recorded, not what is in memory, so `contract score` gives the same matrix.
                events += decode_events(lines, decoder, str(record or "the run"))
                session_done()
    finally:
        if file is not None:
            file.close()
    return events


def _sessions(setups: Sequence[AgentSetup], plan: Sequence[PlannedSession]) -> Iterator[bytes]:
    from stream_guard_contract.agents.agent import STATEFUL
    from stream_guard_contract.driver import AgentDriver, run_in_processes

    if len(setups) > 1:
        yield from run_in_processes(setups, plan)
        return
    with AgentDriver(setups[0]) as driver:
        if driver.url:
            typer.echo(f"proxies: {driver.url}/tools/NAME and {driver.url}/v1", err=True)
        driver.agent.check()
        if not driver.agent.can_reset and driver.is_stateful(plan[0].prompt):
            typer.echo(STATEFUL, err=True)
        yield from driver.run_all(plan)


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """Show progress on standard error: a bar on a terminal, otherwise a line every few seconds.

    Yields a function to call after each session.
    """
    done, began = 0, time.monotonic()
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("sessions"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]:.1f}/s"))
        with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("sessions", total=total, rate=0.0)

            def advance() -> None:
                nonlocal done
                done += 1
                bar.update(task, advance=1, rate=done / max(1e-6, time.monotonic() - began))

            yield advance
        return
    printed = began

    def print_line() -> None:
        nonlocal done, printed
        done += 1
        now = time.monotonic()
        if now - printed >= _PROGRESS_SECONDS:
            printed = now
            left = (total - done) * (now - began) / done
            typer.echo(f"{done} of {total} sessions, about {left:.0f} s left", err=True)

    yield print_line


def _tool(text: str) -> tuple[str, str]:
    name, separator, address = text.partition("=")
    if not separator or not name or "/" in name:
        raise SettingsError(f"--tool {text}: write NAME=ADDRESS, such as weather=http://127.0.0.1:9000/weather")
    return name, address
