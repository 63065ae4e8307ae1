"""``alerts``: what the history keeps of alerts, in a list or one of them whole."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from stream_guard.cli.forms import LEAST, FindingFormat, LeastSeverity, parse_since, plain, show_one
from stream_guard.cli.history import HistoryOption, open_history, whole_id
from stream_guard.commands import SettingsFile
from stream_guard.history.records import AnswerRefusedError

if TYPE_CHECKING:
    from stream_guard.history.alert_rows import AlertFilter, NotedAlert
    from stream_guard.history.database import Database

_PAGE: Final = 500  # alerts that are read at once


def list_alerts(  # noqa: PLR0913, PLR0917  # as many as a user may say
    severity: Annotated[LeastSeverity, typer.Option(help="Only those that are this severe, or more.")] = "info",
    rule: Annotated[str, typer.Option(help="Only those of this rule.")] = "",
    session: Annotated[str, typer.Option(help="Only those of this session: its id, or the beginning of it.")] = "",
    since: Annotated[str, typer.Option(help="Only those kept since then: 2h, 7d, 2026-01-31T12:00:00Z.")] = "",
    text: Annotated[str, typer.Option(help="Only those with these words in what was found or why.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 100,
    form: Annotated[FindingFormat, typer.Option("--format", help="How to print them.")] = "table",
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """List the alerts of the history, the latest first; they come there by --alerts history, serve and the page."""
    from stream_guard.history.alert_rows import AlertFilter

    start = parse_since("--since", since, time.time()) if since else 0.0
    wanted = AlertFilter(severity=severity, rule=rule, session=session, text=text)
    with open_history(history, settings_file) as (database, _):
        found = list(islice(_kept(database, wanted, start), limit + 1))
        if not found and session:
            found = list(islice(_begun(database, wanted, start), limit + 1))
    _print(found[:limit], form)
    if len(found) > limit:
        typer.echo("there are more; --limit shows them", err=True)


def show_alert(
    name: Annotated[str, typer.Argument(help="The id of the alert, or the beginning of it.", show_default=False)],
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Show one alert whole, with what people said of it."""
    from stream_guard.history import alert_rows, verdicts

    with open_history(history, settings_file) as (database, _):
        found = alert_rows.get(database, whole_id(database, "sg_alerts", name, "alerts"))
        if found is None:
            raise AnswerRefusedError(f"there is no alert {name[:40]!r}; list them with: stream-guard alerts list")
        said = verdicts.of_alert(database, found.alert.alert_id)
        show_one({**_as_data(found), **({} if said is None else {"verdict": msgspec.to_builtins(said)})})


def _kept(database: Database, wanted: AlertFilter, since: float) -> Iterator[NotedAlert]:
    """Yield the alerts that are wanted, the latest first, back to a moment."""
    from stream_guard.history import alert_rows

    before: int | None = None
    while True:
        page = alert_rows.page(database, wanted, before, _PAGE)
        for noted in page.alerts:
            if noted.noted < since:
                return
            yield noted
        if page.before is None:
            return
        before = page.before


def _begun(database: Database, wanted: AlertFilter, since: float) -> Iterator[NotedAlert]:
    """Yield those of sessions whose ids begin so, as tables show ids."""
    if len(wanted.session) < LEAST:
        return
    for noted in _kept(database, msgspec.structs.replace(wanted, session=""), since):
        if noted.alert.session_id.startswith(wanted.session):
            yield noted


def _print(found: Sequence[NotedAlert], form: FindingFormat) -> None:
    from rich.console import Console

    from stream_guard.cli.timeline import STYLES, TimelinePrinter

    if form == "json":
        typer.echo(json.dumps([_as_data(noted) for noted in found], indent=2))
        return
    if form == "jsonl":
        for noted in found:
            typer.echo(json.dumps(_as_data(noted)))
        return
    console = Console(highlight=False, markup=False, emoji=False)
    printer = TimelinePrinter(console)
    for noted in found:
        alert = noted.alert
        about = f"{plain(noted.noted, 'time')} {alert.severity.upper()} {plain(alert.rule_id)}"
        shown = f"{about} session {plain(alert.session_id)}: {plain(alert.detail)}"
        if console.is_terminal:
            printer.line(f"{shown} [{alert.alert_id}]", hanging=4, style=STYLES.get(alert.severity, ""))
        else:
            typer.echo(f"{shown} [{alert.alert_id}]")


def _as_data(noted: NotedAlert) -> dict[str, Any]:
    return {"noted": noted.noted, **msgspec.to_builtins(noted.alert)}
