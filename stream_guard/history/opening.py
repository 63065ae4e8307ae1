"""Open the database of an address."""

from __future__ import annotations

from pathlib import Path

from stream_guard.errors import StoreError
from stream_guard.history.database import Database, SqliteDatabase
from stream_guard.history.migrations import STEPS
from stream_guard.history.postgres import PostgresDatabase


def is_postgres(address: str) -> bool:
    """Whether an address is that of a Postgres database."""
    return address.startswith(("postgresql://", "postgres://"))


def open_database(address: str, key: bytes = b"") -> Database:
    """Return the database at a path or a ``postgresql://`` address; ``key`` signs records.

    Its tables are created, or brought up to date where an earlier version wrote them.
    """
    if is_postgres(address):
        return PostgresDatabase(address, key, steps=STEPS)
    if "://" in address:
        scheme = address.partition("://")[0]
        raise StoreError(f"a history cannot be kept at {scheme}://...; give a file's path or postgresql://host/name")
    return SqliteDatabase(Path(address), key, steps=STEPS)
