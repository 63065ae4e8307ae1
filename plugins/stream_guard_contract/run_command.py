"""``contract run``: drives an agent through every scenario of a contract, records the sessions, and scores them."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from stream_guard import Decoder, Event, SettingsError
from stream_guard.commands import Reports, SettingsFile
from stream_guard_contract.commands import (
    AllowInconclusive,
    ConfigFile,
    ContractFile,
    MatrixForm,
    MinScore,
    contract_file,
    exit_for,
    load,
    prepare,
    publish,
)

if TYPE_CHECKING:
    from stream_guard_contract.document.loading import Contract
    from stream_guard_contract.document.sections import AgentSection
    from stream_guard_contract.driver import AgentSetup, PlannedSession

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
    form: Annotated[MatrixForm, typer.Option("--format", help="How to print the result.")] = MatrixForm.TABLE,
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
    if not setup.is_http:
        sys.path.insert(0, str(Path.cwd()))  # module:callable is found from the current folder
    return worker_setups(setup, workers, agents)


def _agent(contract: Contract, name: str | None) -> AgentSection:
    from stream_guard_contract.document.sections import AgentSection

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
    from stream_guard_contract.recording.session_writer import TraceFile, decode_events

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
