"""The history in a Postgres database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from types import MappingProxyType
from typing import Any, Final

from stream_guard.distribution import install_line
from stream_guard.errors import StoreError
from stream_guard.history.database import Row, Statements, Step, Value, prepare
from stream_guard.redaction import redact_text

_LOCK: Final = 0x53_47_48_49  # held by every transaction that writes: the audit chain has one end
_PATIENCE: Final = 10  # seconds to wait for the server's first answer
# A server that is frozen in a transaction would keep every other one waiting.
_SETTINGS: Final = "SET idle_in_transaction_session_timeout = '5s'"
# A server may be set to commit before the disk has it. Stricter settings than "on" stay.
_DURABLE: Final = (
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
)


class PostgresDatabase:
    """A history that several servers share. A broken connection is opened again at the next use."""

    def __init__(self, address: str, key: bytes = b"", *, steps: Mapping[int, Step] = MappingProxyType({})) -> None:
        try:
            import psycopg  # noqa: PLC0415  (an extra)
        except ModuleNotFoundError as error:
            raise StoreError(
                f"a history in Postgres needs psycopg; install it with: {install_line('postgres')}"
            ) from error
        self._psycopg = psycopg
        self.key = key
        self._address = address
        self._shown = redact_text(address)
        self._lock = RLock()
        self._db: psycopg.Connection[Row] | None = None
        with self.transaction() as statements:
            prepare(statements, self._shown, steps)

    def run(self, sql: str, *values: Value) -> list[Row]:
        """Run one statement of the transaction that is open."""
        # Every statement is from this package; values are passed separately.
        found = self._connection().execute(sql.replace("%", "%%").replace("?", "%s"), values)
        return found.fetchall() if found.description is not None else []

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[Statements]:
        """Begin when no other process is in a transaction."""
        with self._lock:
            try:
                with self._connection().transaction():
                    self.run("SELECT pg_advisory_xact_lock(?)", _LOCK)
                    if durable:
                        self.run(_DURABLE)
                    yield self
            except self._psycopg.Error as error:
                raise self._explain(error) from error

    def read(self, sql: str, *values: Value) -> list[Row]:
        """Return the rows of one query."""
        with self._lock:
            try:
                return self.run(sql, *values)
            except self._psycopg.Error as error:
                raise self._explain(error) from error

    def time(self) -> float:
        """Return the server's time: all who share the history go by it."""
        [(now,)] = self.read("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(now)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _connection(self) -> Any:
        if self._db is None or self._db.closed:
            self._db = self._psycopg.connect(self._address, autocommit=True, connect_timeout=_PATIENCE)
            self._db.execute(_SETTINGS)
        return self._db

    def _explain(self, error: Exception) -> StoreError:
        message = redact_text(" ".join(str(error).split()))
        return StoreError(f"{self._shown}: {message}; see that the server runs and that the account may create tables")
