"""SQLite files of ours: private ones, which of them a file is, of which version, and what a failure means."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from stream_guard.errors import StoreError

PRIVATE: Final = 0o600


def create_private(path: Path) -> None:
    """Create the file for this account alone, unless it is there; what opens it next says what is wrong with the path.

    A file that is there keeps its mode: whoever widened it may have had a reason.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))


class SqliteMark(NamedTuple):
    """What is written into a file, so that no other database is taken for it."""

    name: str  # as messages call the file
    application: int
    version: int = 0  # of the layout; 0 where a table of the file says it
    other_version: str = ""  # what to do about a file of another version
    earlier: tuple[int, ...] = ()  # versions that are taken over


def refuse_other_files(db: sqlite3.Connection, path: Path, mark: SqliteMark) -> None:
    """Raise StoreError unless the file is empty or has the mark."""
    [(application,)] = db.execute("PRAGMA application_id")
    [(version,)] = db.execute("PRAGMA user_version")
    [(tables,)] = db.execute("SELECT count(*) FROM sqlite_master")
    if tables and application != mark.application:
        raise StoreError(f"{path}: a database, but not {mark.name} of stream_guard; choose another path")
    if tables and mark.version and version not in (mark.version, *mark.earlier):
        raise StoreError(
            f"{path}: {mark.name} of version {version}, this is version {mark.version}; {mark.other_version}"
        )


def write_mark(db: sqlite3.Connection, mark: SqliteMark) -> None:
    """Mark the file, inside the transaction that makes its tables."""
    db.execute(f"PRAGMA application_id = {mark.application}")
    if mark.version:
        db.execute(f"PRAGMA user_version = {mark.version}")


def explain_failure(path: Path, error: Exception, advice: Sequence[tuple[str, str]]) -> StoreError:
    """Return the error with what to do: the first advice whose key is part of the database's own message."""
    message = str(error)
    reason = next((text for part, text in advice if part in message), f"{message}; see that the disk is in order")
    return StoreError(f"{path}: {reason}")
