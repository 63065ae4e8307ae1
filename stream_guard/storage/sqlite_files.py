"""SQLite files of ours: private ones, which of them a file is, of which version, and what a failure means."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, Final, NamedTuple

from stream_guard.errors import StoreError

PRIVATE: Final = 0o600


def create_private(path: Path) -> None:
    """Create the file for this account alone, unless it is there; what opens it next says what is wrong with the path.

    A file that is there keeps its mode: whoever widened it may have had a reason.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE))


class SqliteMark(NamedTuple):
    """What is written into a file, so that no other database is taken for it, and what to do when it fails."""

    name: str  # as messages call the file
    application: int
    full: str  # what to do when the disk is full
    damaged: str  # when the file is
    locked: str = ""  # when another process has it
    version: int = 0  # of the layout; 0 where a table of the file says it
    other_version: str = ""  # what to do about a file of another version
    earlier: tuple[int, ...] = ()  # versions that are taken over

    @property
    def noun(self) -> str:
        """What the file is, without an article."""
        return self.name.partition(" ")[2]


class SqliteFile:
    """A database in one file with a write-ahead log: a process that is killed leaves its last transaction.

    Any thread may use it, one at a time. ``prepare`` makes the tables, in a transaction; ``exclusive`` locks the file
    until the process ends. Errors are StoreErrors that say what to do.
    """

    def __init__(
        self,
        path: Path,
        mark: SqliteMark,
        prepare: Callable[[sqlite3.Connection], None],
        *,
        patience: float,
        exclusive: bool = False,
    ) -> None:
        self.path = path
        self._mark = mark
        self._lock = RLock()
        self._db: sqlite3.Connection | None = None
        try:
            create_private(path)  # SQLite gives its log the mode of the file
            self._db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
            if exclusive:  # before the first read
                self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._refuse_other_files()
            self._db.execute("PRAGMA journal_mode = WAL")
            with self.write() as db:
                db.execute(f"PRAGMA application_id = {mark.application}")
                if mark.version:
                    db.execute(f"PRAGMA user_version = {mark.version}")
                prepare(db)
        except (sqlite3.Error, StoreError) as error:
            self.close()
            raise error if isinstance(error, StoreError) else self.explain(error) from error

    @contextmanager
    def write(self, *, durable: bool = False) -> Iterator[sqlite3.Connection]:
        """Write all or nothing, without another writer meanwhile; what is ``durable`` is on the disk then."""
        with self._lock:
            db = self.connection()
            try:
                db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):  # the first error says what is wrong
                    db.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise self.explain(error) from error
                raise

    def query(self, sql: str, *values: object) -> list[Any]:
        """Return the rows of one query."""
        with self._lock:
            try:
                return self.connection().execute(sql, values).fetchall()
            except sqlite3.Error as error:
                raise self.explain(error) from error

    def connection(self) -> sqlite3.Connection:
        """Return the open connection."""
        if self._db is None:
            raise StoreError(f"{self.path}: the {self._mark.noun} is closed")
        return self._db

    def close(self) -> None:
        """Close the file. Closing twice is harmless."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def explain(self, error: Exception) -> StoreError:
        """Return the error with what to do."""
        return explain_failure(self.path, error, self._mark)

    def _refuse_other_files(self) -> None:
        """Raise StoreError unless the file is empty or has the mark."""
        mark, db = self._mark, self.connection()
        [(application,)] = db.execute("PRAGMA application_id")
        [(version,)] = db.execute("PRAGMA user_version")
        [(tables,)] = db.execute("SELECT count(*) FROM sqlite_master")
        if tables and application != mark.application:
            raise StoreError(f"{self.path}: a database, but not {mark.name} of stream_guard; choose another path")
        if tables and mark.version and version not in (mark.version, *mark.earlier):
            raise StoreError(
                f"{self.path}: {mark.name} of version {version}, this is version {mark.version}; {mark.other_version}"
            )


def explain_failure(path: Path, error: Exception, mark: SqliteMark) -> StoreError:
    """Return the error with what to do: the first advice whose key is part of the database's own message."""
    message = str(error)
    cannot_open = f"the {mark.noun} cannot be opened; its folder must exist and be writable"
    advice = (
        ("locked", mark.locked),
        ("full", mark.full),
        ("No space", mark.full),
        ("not a database", f"not {mark.name} of stream_guard; choose another path"),
        ("malformed", mark.damaged),
        ("readonly", f"the {mark.noun} cannot be written; check the rights of the file and of its folder"),
        ("unable to open", cannot_open),
        ("No such file", cannot_open),
    )
    reason = next((text for part, text in advice if text and part in message), "")
    return StoreError(f"{path}: {reason or f'{message}; see that the disk is in order'}")
