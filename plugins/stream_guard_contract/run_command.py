"""``contract run``: drive an agent through every scenario of a contract, record what it does, and score that."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from stream_guard.cli.progress import EVERY
from stream_guard.commands import Reports, SettingsFile
from stream_guard.errors import SettingsError
from stream_guard.model import Event
from stream_guard.ports import Decoder
from stream_guard_contract.commands import (
    DEFAULT_FILE,
    AllowInconclusive,
    ConfigFile,
    MatrixForm,
    MinScore,
    leave,
    load,
    prepare,
    publish,
)

if TYPE_CHECKING:
    from stream_guard_contract.document import Contract
    from stream_guard_contract.drive import Setup, Unit
    from stream_guard_contract.forms import Agent


class Step(Protocol):
    """Is called after each session."""

    def __call__(self) -> None:
        """One more is done."""


def run_command(  # noqa: PLR0913, PLR0917  # as many as a user may say
    config: ConfigFile = DEFAULT_FILE,
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
    from stream_guard_contract.scoring import score

    _, registry, targets = prepare(settings_file, reports)
    contract = only(load(config, registry), scenario or ())
    setups = make_setups(contract, agents or (), tool or (), llm, proxy_port, workers)
    decoder = registry.decoders["native"]()
    units = plan_units(contract, seed, repeat)
    began = time.monotonic()
    events = drive(setups, units, record, decoder)
    kept = f"; recorded in {record}" if record is not None else ""
    typer.echo(f"{len(units)} sessions in {time.monotonic() - began:.1f} s, seed {seed}{kept}", err=True)
    matrix = score(contract, events, registry)
    publish(contract, matrix, form, targets)
    leave(matrix, min_score, 0, allow_inconclusive=allow_inconclusive)


def only(contract: Contract, names: Sequence[str]) -> Contract:
    """Return the contract with the scenarios that are named, or all of them where none is."""
    known = [scenario.name for scenario in contract.scenarios]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SettingsError(f"--scenario {unknown[0]}: the contract has {', '.join(known) or 'no scenario'}")
    chosen = tuple(scenario for scenario in contract.scenarios if not names or scenario.name in names)
    return replace(contract, scenarios=chosen)


def make_setups(
    contract: Contract, agents: Sequence[str], tools: Sequence[str], llm: str | None, proxy_port: int, workers: int = 1
) -> list[Setup]:
    """Return how each worker reaches its agent, or raise SettingsError."""
    from stream_guard_contract.drive import Setup, crew
    from stream_guard_contract.requests import check_upstream

    named = dict(_tool(text) for text in tools)
    setup = Setup(
        agent=_agent(contract, agents[0] if agents else None),
        tools={name: check_upstream(address, "--tool") for name, address in named.items()},
        model=check_upstream(llm, "--llm") if llm else "",
        port=proxy_port,
    )
    if setup.is_http and (setup.tools or setup.model) and not proxy_port:
        raise SettingsError("an HTTP agent has to know where the proxies are; name their port with --proxy-port")
    if not setup.is_http:
        sys.path.insert(0, str(Path.cwd()))  # as for any other program that is given module:name
    return crew(setup, workers, agents)


def _agent(contract: Contract, name: str | None) -> Agent:
    from stream_guard_contract.forms import Agent

    form = contract.agent
    if name is not None:
        given = {"endpoint": name, "type": "http" if "://" in name else "python"}
        form = form.model_copy(update=given) if form is not None else Agent.model_validate(given)
    if form is None:
        raise SettingsError(f"{contract.file} names no agent; add `agent: {{endpoint: ...}}`, or say --agent")
    return form


def plan_units(contract: Contract, seed: int, repeat: int) -> list[Unit]:
    """Return the sessions to be, under an id that no other run has."""
    from stream_guard_contract.drive import plan

    return plan(contract, run_id=f"run-{secrets.token_hex(4)}", seed=seed, repeat=repeat)


def drive(setups: Sequence[Setup], units: Sequence[Unit], record: Path | None, decoder: Decoder) -> list[Event]:
    """Return the events of all sessions as they are read back, and keep them in a file where one is named."""
    from stream_guard_contract.recording import TraceFile, decode_events

    kept = TraceFile(record) if record is not None else None
    events: list[Event] = []
    try:
        with progress(len(units)) as step:
            for lines in _sessions(setups, units):
                if kept is not None:
                    kept.write([lines])
                # What is scored is what was recorded, not what is still in memory: the same as for every reader.
                events += decode_events(lines, decoder, str(record or "the run"))
                step()
    finally:
        if kept is not None:
            kept.close()
    return events


def _sessions(setups: Sequence[Setup], units: Sequence[Unit]) -> Iterator[bytes]:
    from stream_guard_contract.agent import STATEFUL
    from stream_guard_contract.drive import Player, play_in_processes

    if len(setups) > 1:
        yield from play_in_processes(setups, units)
        return
    with Player(setups[0]) as player:
        if player.url:
            typer.echo(f"proxies: {player.url}/tools/NAME and {player.url}/v1", err=True)
        player.agent.check()
        if not player.agent.can_reset and player.is_stateful(units[0].prompt):
            typer.echo(STATEFUL, err=True)
        yield from player.play_all(units)


@contextmanager
def progress(total: int) -> Iterator[Step]:
    """Show on standard error how many sessions are done: a bar on a terminal, a line now and then elsewhere."""
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
    said = began

    def tell() -> None:
        nonlocal done, said
        done += 1
        now = time.monotonic()
        if now - said >= EVERY:
            said = now
            left = (total - done) * (now - began) / done
            typer.echo(f"{done} of {total} sessions, about {left:.0f} s left", err=True)

    yield tell


def _tool(text: str) -> tuple[str, str]:
    name, separator, address = text.partition("=")
    if not separator or not name or "/" in name:
        raise SettingsError(f"--tool {text}: write NAME=ADDRESS, such as weather=http://127.0.0.1:9000/weather")
    return name, address
