"""Sessions in a Postgres database, which several gates share: each session is judged by one of them at a time.

A gate locks the rows that a question is about, reads them, judges, writes them and commits, in two exchanges with the
database. A gate that dies in between leaves what was committed before; its locks end with its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Final, TypeVar

from stream_guard.distribution import install_line
from stream_guard.errors import StoreError
from stream_guard.redaction import redact_text

Answer = TypeVar("Answer")

_PATIENCE: Final = 10  # seconds to wait for the server's first answer
_TRIES: Final = 2  # a connection may have been closed since its last use, and a deadlock ends one of two
# A gate that is frozen while it holds a session loses it after this, and what it decided is not committed.
_SETTINGS: Final = "SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '10s'"
# By digests: a name may be longer than an index takes. Nothing but the key is indexed, and pages have room, so that an
# update stays where its row is.
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS sg_gate_states "
    "(name BYTEA PRIMARY KEY, blob BYTEA NOT NULL, deadline DOUBLE PRECISION) WITH (fillfactor = 60)"
)
_LOCK: Final = "SELECT pg_advisory_xact_lock(number) FROM unnest(%s::bigint[]) AS number"
# A statement of its own behind the locks: it sees what was committed until they were had.
_READ: Final = (
    "SELECT name, blob, extract(epoch FROM clock_timestamp())::float8 "
    "FROM unnest(%s::bytea[]) AS asked (name) LEFT JOIN sg_gate_states USING (name)"
)
_WRITE: Final = (
    "INSERT INTO sg_gate_states SELECT * FROM unnest(%s::bytea[], %s::bytea[], %s::float8[]) "
    "ON CONFLICT (name) DO UPDATE SET blob = excluded.blob, deadline = excluded.deadline"
)
_DROP: Final = "DELETE FROM sg_gate_states WHERE name = ANY(%s::bytea[])"
# Of sessions that were idle for their time, and an hour more: they would begin anew.
_PURGE: Final = "DELETE FROM sg_gate_states WHERE deadline < extract(epoch FROM clock_timestamp()) - 3600"
_PURGE_EVERY: Final = 4096  # commits


class SharedStore:
    """A store that many processes use. Rows are read and written inside ``together`` only."""

    is_shared: Final = True

    def __init__(self, address: str) -> None:
        try:
            import psycopg  # noqa: PLC0415  (an extra)
        except ModuleNotFoundError as error:
            raise StoreError(
                f"sessions in Postgres need psycopg; install it with: {install_line('postgres')}"
            ) from error
        self._psycopg = psycopg
        self._address = address
        self._shown = redact_text(address)
        self._db: psycopg.Connection[Any] | None = None
        self._now = 0.0
        self._unpurged = 0
        self._held: dict[bytes, bytes | None] = {}  # rows that are locked, as they were read or will be written
        self._puts: dict[bytes, tuple[bytes, float | None]] = {}
        self._drops: set[bytes] = set()
        try:
            with self._transaction():
                self._execute(_LOCK, [[_number(_digest("sg_gate_states"))]])  # two that start at once
                self._execute(_TABLE)
        except psycopg.Error as error:
            raise self._explain(error) from error

    def together(self, names: Iterable[str], work: Callable[[], Answer]) -> Answer:
        """Do some work while nobody else has the rows of these names, or others that it asks for.

        Returns when what it put is durable. Where the database does not answer, StoreError, and nothing is written. The
        work is done anew when its first try failed, and must not rely on what that put.
        """
        asked = list(names)
        for left in reversed(range(_TRIES)):
            try:
                with self._transaction():
                    self._hold(asked)
                    found = work()
                    self._write()
            except self._psycopg.OperationalError as error:
                if not left:
                    raise self._explain(error) from error
            except self._psycopg.Error as error:
                raise self._explain(error) from error
            else:
                return found
        raise AssertionError("the last try returns or raises")

    def time(self) -> float:
        """Return the database's time when the latest rows were locked: one clock for all who share a session."""
        return self._now

    def get(self, session_id: str) -> bytes | None:
        """Return what was put last, by whomever, or None; the row is locked from here on."""
        self._hold([session_id])
        return self._held[_digest(session_id)]

    def put(self, session_id: str, blob: bytes, deadline: float | None) -> None:
        """Write the blob when the work is done."""
        name = _digest(session_id)
        self._drops.discard(name)
        self._puts[name] = (blob, deadline)
        self._held[name] = blob

    def drop(self, session_id: str) -> None:
        """Delete the row when the work is done."""
        name = _digest(session_id)
        self._puts.pop(name, None)
        self._drops.add(name)
        self._held[name] = None

    def deadlines(self) -> Iterator[tuple[str, float | None]]:
        """Yield nothing: a process that shares rows looks only at those that it is asked about."""
        yield from ()

    def commit(self, meta: Mapping[str, bytes]) -> None:
        """Do nothing: what was put is committed when the work is done."""

    def close(self) -> None:
        """Close the connection."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _hold(self, names: Iterable[str]) -> None:
        """Lock rows and read them; those that are locked already stay as they are."""
        # In the same order everywhere: two that want the same rows do not wait for each other.
        missing = sorted({_digest(name) for name in names} - self._held.keys(), key=_number)
        if missing:
            self._execute(_LOCK, [[_number(name) for name in missing]])
            for name, blob, now in self._execute(_READ, [missing]).fetchall():
                self._held[bytes(name)] = None if blob is None else bytes(blob)
                self._now = now

    def _write(self) -> None:
        if self._drops:
            self._execute(_DROP, [list(self._drops)])
        if self._puts:
            rows = [(name, *put) for name, put in self._puts.items()]
            self._execute(_WRITE, [list(column) for column in zip(*rows, strict=True)])
        self._unpurged += 1
        if self._unpurged >= _PURGE_EVERY:
            self._unpurged = 0
            self._execute(_PURGE)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            db = self._connection()
            # In a pipeline, what needs no answer waits for nobody: the beginning goes with the locks, the writing with
            # the commit.
            with db.pipeline(), db.transaction():
                yield
        except self._psycopg.Error:
            self.close()
            raise
        finally:
            self._held.clear()
            self._puts.clear()
            self._drops.clear()

    def _execute(self, sql: str, values: list[Any] | None = None) -> Any:
        return self._connection().execute(sql, values)

    def _connection(self) -> Any:
        if self._db is None or self._db.closed:
            self._db = self._psycopg.connect(self._address, autocommit=True, connect_timeout=_PATIENCE)
            self._db.execute(_SETTINGS)
        return self._db

    def _explain(self, error: Exception) -> StoreError:
        message = redact_text(" ".join(str(error).split()))
        return StoreError(f"{self._shown}: {message}; see that the server runs and that the account may create tables")


def _digest(name: str) -> bytes:
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=32).digest()


def _number(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "big", signed=True)
