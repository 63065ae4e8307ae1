"""``outbox``: alerts on their way to sinks, and those that a sink refused."""

from __future__ import annotations

import time
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from stream_guard.cli.listing import show
from stream_guard.commands import ListFormat, SettingsFile
from stream_guard.errors import SettingsError

if TYPE_CHECKING:
    from stream_guard.alerting.outbox import AlertOutbox

_COLUMNS = ("number", "sink", "queued", "severity", "rule_id", "session_id", "problem")


class ListedState(StrEnum):
    """What an alert in the outbox waits for, or what became of it."""

    WAITING = "waiting"
    HELD = "held"
    ACTIVE = "active"
    SUMMED = "summed"
    DEAD = "dead"


class RetriedState(StrEnum):
    """What can be sent once more, or forgotten."""

    SUMMED = "summed"
    DEAD = "dead"


class QueuedAlert(msgspec.Struct, frozen=True):
    """An alert in the outbox, as it is listed."""

    number: int
    sink: str
    queued: str
    severity: str
    rule_id: str
    session_id: str
    problem: str
    detail: str
    alert_id: str


OutboxFile = Annotated[Path | None, typer.Argument(help="The outbox; that of the settings without one.")]
SinkOption = Annotated[str, typer.Option("--sink", help="Only what is for this sink.")]
StateOption = Annotated[RetriedState, typer.Option("--state", help="Which alerts.")]


def list_alerts(
    file: OutboxFile = None,
    state: Annotated[ListedState, typer.Option(help="What they wait for, or what became of them.")] = ListedState.DEAD,
    sink: SinkOption = "",
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 100,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print them.")] = ListFormat.TABLE,
    settings_file: SettingsFile = None,
) -> None:
    """List alerts in the outbox: dead letters, unless another state is asked for."""
    with closing(_open(file, settings_file)) as outbox:
        rows = outbox.listing(state.value, sink, limit)
    listed = [
        QueuedAlert(
            row.number,
            row.sink,
            time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(row.queued)),
            row.alert.severity,
            row.alert.rule_id,
            row.alert.session_id,
            row.problem,
            row.alert.detail,
            row.alert.alert_id,
        )
        for row in rows
    ]
    show(listed, _COLUMNS, form)


def retry(
    file: OutboxFile = None,
    state: StateOption = RetriedState.DEAD,
    sink: SinkOption = "",
    settings_file: SettingsFile = None,
) -> None:
    """Send dead letters once more, or one by one what was summed up; by the process that sends, or its next start."""
    with closing(_open(file, settings_file)) as outbox:
        number = outbox.retry(sink, time.time(), state.value)
    typer.echo(f"{number} alerts will be sent again", err=True)


def drop(
    file: OutboxFile = None,
    state: StateOption = RetriedState.DEAD,
    sink: SinkOption = "",
    settings_file: SettingsFile = None,
) -> None:
    """Forget dead letters, or what was summed up."""
    with closing(_open(file, settings_file)) as outbox:
        number = outbox.drop(sink, state.value)
    typer.echo(f"{number} alerts forgotten", err=True)


def _open(file: Path | None, settings_file: Path | None) -> AlertOutbox:
    from stream_guard.alerting.outbox import AlertOutbox
    from stream_guard.settings import load_settings

    path = file or load_settings(settings_file).delivery.outbox or Path("stream-guard-outbox.db")
    if not path.exists():
        raise SettingsError(f"{path}: there is no outbox; a run with --checkpoint FILE has it at FILE.outbox")
    return AlertOutbox(path, shared=True)
