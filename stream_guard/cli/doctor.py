"""``doctor``: whether the broker, the topics, a gate and the sinks are fit for use, or else what is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from stream_guard.commands import FINDINGS, INFRASTRUCTURE, ListFormat, SettingsFile, SourceFormat
from stream_guard.errors import SettingsError
from stream_guard.kafka.address import parse_address

if TYPE_CHECKING:
    from stream_guard.doctor.topics import Check
    from stream_guard.settings import Settings

_STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(  # noqa: PLR0913, PLR0917  # as many as a user may say
    kafka: Annotated[
        str | None, typer.Option("--kafka", help="The topics of events: kafka://HOST:PORT/TOPIC[,TOPIC].")
    ] = None,
    gate: Annotated[
        str | None,
        typer.Option("--probe", help="Send a probe through a gate: http://HOST:PORT, or package.module:name."),
    ] = None,
    alerts: Annotated[
        list[str] | None,
        typer.Option("--alerts", "-a", help="A sink to look at, as for run, beside the routes of the settings."),
    ] = None,
    send_test: Annotated[bool, typer.Option("--send-test", help="Send a test alert to every sink.")] = False,
    table: Annotated[str | None, typer.Option(help="The topic that keeps the worker's states.")] = None,
    rekey: Annotated[
        str | None, typer.Option(help="The topic that events are sent to under their session's id.")
    ] = None,
    size: Annotated[int, typer.Option("--sample", min=1, help="How many of the newest records to look at.")] = 1000,
    source_format: SourceFormat = "auto",
    form: Annotated[ListFormat, typer.Option("--format", help="How to print the checks.")] = ListFormat.TABLE,
    settings_file: SettingsFile = None,
) -> None:
    """Look at a broker, its topics, a gate, sinks, or say what is installed; exit 1 when something must be mended."""
    from stream_guard.doctor.topics import check_installation, examine
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings

    settings = load_settings(settings_file)
    if kafka is None and gate is None and not alerts and not settings.delivery.routes:
        if send_test:
            raise SettingsError("there is no sink to send a test to; give --alerts, or settings with delivery.routes")
        _show(list(check_installation()), form)
        return
    checks = [] if gate is None else [_probe(gate, settings)]
    if kafka is not None:
        decoder = Assembly(settings).make_decoder(source_format)
        try:
            address = parse_address(kafka)
        except ValueError as error:
            raise SettingsError(f"--kafka {error}") from None
        companions = [topic for topic in (table, rekey) if topic is not None]
        checks += examine(address, companions, settings, decoder, size)
    checks += _look_at_sinks(alerts or (), settings, send_test=send_test)
    _show(checks, form)
    if any(check.about in ("broker", "login") and check.status == "fail" for check in checks):
        raise typer.Exit(INFRASTRUCTURE)
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(FINDINGS)


def _probe(target: str, settings: Settings) -> Check:
    """Whether a gate blocks what must be blocked."""
    from stream_guard.doctor.topics import Check, probe

    problem = probe(target, settings.api.read_token())
    if problem:
        return Check("gate", "fail", problem, "see that the gate is registered, and that agents use this one")
    return Check("gate", "ok", f"{target} blocked the probe")


def _look_at_sinks(targets: Sequence[str], settings: Settings, *, send_test: bool) -> list[Check]:
    from stream_guard.alerting.routes import queue_name
    from stream_guard.doctor.topics import check_sinks, impatient
    from stream_guard.running.assembly import Assembly

    with Assembly(settings.model_copy(update={"kafka": impatient(settings.kafka)})) as assembly:
        ways = {queue_name(text): assembly.route_to(text) for text in targets}
        return list(check_sinks(settings.delivery.routes | ways, assembly, send_test=send_test))


def _show(checks: list[Check], form: ListFormat) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if form is ListFormat.JSON:
        typer.echo(msgspec.json.format(msgspec.json.encode([_row(check) for check in checks]), indent=2).decode())
        return
    printed = Table(box=None, pad_edge=False)
    for heading in ("about", "", "found", "what to do"):
        printed.add_column(heading, overflow="fold")
    for check in checks:
        # Text, not str: what records say may look like markup.
        status = Text(check.status, style=_STYLES[check.status])
        printed.add_row(check.about, status, Text(check.found), Text(check.advice))
    Console().print(printed)


def _row(check: Check) -> dict[str, Any]:
    return {"about": check.about, "status": check.status, "found": check.found, "advice": check.advice}
