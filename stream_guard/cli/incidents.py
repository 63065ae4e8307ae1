"""``incidents``: what rules found, session by session, and whether it is solved."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import typer

from stream_guard.cli.history import (
    ByOption,
    HistoryOption,
    NoteOption,
    answered_by,
    open_history,
    via_account,
    whole_id,
)
from stream_guard.cli.listing import show, show_one
from stream_guard.commands import ListFormat, SettingsFile
from stream_guard.history import incidents
from stream_guard.history.records import AnswerRefusedError

_COLUMNS = ("id", "status", "severity", "opened", "session_id", "rule_id", "findings")
IncidentId = Annotated[str, typer.Argument(help="The id of the incident, or the beginning of it.", show_default=False)]


def list_incidents(
    status: Annotated[incidents.Status | None, typer.Option(help="Only those that are this.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 100,
    form: Annotated[ListFormat, typer.Option("--format", help="How to print them.")] = ListFormat.TABLE,
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """List incidents, the latest first."""
    with open_history(history, settings_file) as (database, _):
        show(incidents.listing(database, status, limit), _COLUMNS, form)


def show_incident(name: IncidentId, history: HistoryOption = None, settings_file: SettingsFile = None) -> None:
    """Show one incident and its timeline."""
    with open_history(history, settings_file) as (database, _):
        name = whole_id(database, "sg_incidents", name, "incidents")
        found = incidents.get(database, name)
        if found is None:
            raise AnswerRefusedError(f"there is no incident {name[:40]!r}; list them with: stream-guard incidents list")
        show_one({**msgspec.to_builtins(found), "timeline": incidents.timeline(database, name)})


def solve(
    name: IncidentId,
    by: ByOption = None,
    note: NoteOption = "",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Call an incident solved; a finding that comes later opens it again."""
    with open_history(history, settings_file) as (database, _):
        name = whole_id(database, "sg_incidents", name, "incidents")
        done = incidents.solve(database, name, by=answered_by(by), note=note, time=time.time(), via=via_account())
        typer.echo(f"{done.id} solved by {done.solved_by}", err=True)
