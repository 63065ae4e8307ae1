"""Options that the commands about the history share: where it is, and who answers."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from stream_guard.cli.names import LEAST, find_name
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
    history: str | None, settings_file: Path | None, *, may_be_new: bool = False
) -> Iterator[tuple[Database, Settings]]:
    """Open the history of the options or the settings; SettingsError where there is none and it may not be new."""
    from stream_guard.history.opening import open_database
    from stream_guard.settings import load_settings

    settings = load_settings(settings_file, history={"url": history})
    url = settings.history.url
    if not may_be_new and "://" not in url and not Path(url).exists():
        # An empty history would read as one in which nothing ever happened.
        raise SettingsError(f"there is no history at {url}; name it with --history, or history.url in the settings")
    database = open_database(settings.history.url, settings.history.read_key())
    try:
        yield database, settings
    finally:
        database.close()


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
