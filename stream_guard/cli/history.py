"""The history from the command line: the options that commands about it share, and what is pruned of it."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import typer

from stream_guard.cli.forms import LEAST, find_name
from stream_guard.commands import SettingsFile
from stream_guard.errors import SettingsError

if TYPE_CHECKING:
    from stream_guard.history.database import Database
    from stream_guard.settings import Settings

HistoryOption = Annotated[
    str | None, typer.Option("--history", help="The history: a file or postgresql://...; default: the settings'.")
]
ByOption = Annotated[str | None, typer.Option("--by", help="Who answers; default: the name of this account.")]
NoteOption = Annotated[str, typer.Option("--note", help="Why; kept with the answer.")]
ListedTable: TypeAlias = Literal["sg_alerts", "sg_incidents", "sg_reviews"]


@contextmanager
def open_history(
    history: str | None, settings_file: Path | None, *, may_be_new: bool = False, **chosen: Any
) -> Iterator[tuple[Database, Settings]]:
    """Open the history of the options or the settings; SettingsError where there is none and it may not be new."""
    from stream_guard.history.database import open_database
    from stream_guard.settings import load_settings

    settings = load_settings(settings_file, history={"url": history, **chosen})
    url = settings.history.url
    if not may_be_new and "://" not in url and not Path(url).exists():
        # An empty history would read as one in which nothing ever happened.
        raise SettingsError(f"there is no history at {url}; name it with --history, or history.url in the settings")
    database = open_database(settings.history.url, settings.history.read_key())
    try:
        yield database, settings
    finally:
        database.close()


def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    keep: Annotated[
        str | None, typer.Option(help="How long what is settled is kept: 90d; default: history.keep of the settings.")
    ] = None,
    max_records: Annotated[
        int | None, typer.Option(help="Records of the audit to keep; default: history.max_records.")
    ] = None,
    history: HistoryOption = None,
    settings_file: SettingsFile = None,
) -> None:
    """Take out of the history what is settled and old, and say what went; servers and runs do it meanwhile."""
    from stream_guard.history import retention

    with open_history(history, settings_file, keep=keep, max_records=max_records) as (database, settings):
        found = (retention.would_prune if dry_run else retention.prune)(database, settings.history)
    for table, what in _PRUNED.items():
        if found[table]:
            typer.echo(f"{found[table]:,} {what}")
    if not found:
        typer.echo("nothing is old enough", err=True)
    elif dry_run:
        typer.echo("nothing was pruned: this was a dry run", err=True)


_PRUNED: Final = {
    "sg_audit": "records of the audit",
    "sg_rulings": "answers of the gate",
    "sg_incidents": "solved incidents",
    "sg_timeline": "entries of their timelines, with their alerts and verdicts",
    "sg_reviews": "reviews that have their answer",
    "sg_bypasses": "bypasses that ended",
    "sg_ended": "ended sessions",
    "sg_policies": "policies that were replaced",
    "sg_inquiries": "questions to judges, with the answers",
    "sg_waiting": "findings that waited for those",
    "sg_budgets": "sums of a day's questions",
    "sg_acs_sessions": "sessions of the Agent Control Standard",
    "sg_sessions": "sessions of which events were kept",
    "sg_events": "events of those",
    "sg_tallies": "counts for charts",
}


def whole_id(database: Database, table: ListedTable, name: str, what: str) -> str:
    """Return the id that a name begins, as tables show it; the name itself where it begins none."""
    if len(name) < LEAST or not name.replace("-", "").isalnum():
        return name
    rows = database.read(f"SELECT id FROM {table} WHERE id LIKE ? ORDER BY id LIMIT 20", f"{name}%")  # noqa: S608  # a closed set
    return find_name(name, [str(known) for (known,) in rows], what) or name


def answered_by(by: str | None) -> str:
    """Return the name of the person who answers."""
    return by or getpass.getuser()


def via_account() -> str:
    """Return what the record says of how it is known who answered: whoever has the history, has it by an account."""
    return f"account {getpass.getuser()}"
