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
from stream_guard.judge.ports import ALERT_ROWS
from stream_guard.judge.rows import append_all
from stream_guard.redaction import redact_text

Answer = TypeVar("Answer")

_PATIENCE: Final = 10  # seconds to wait for the server's first answer
_TRIES: Final = 2  # a connection may have been closed since its last use, and a deadlock ends one of two
# A gate that is frozen while it holds a session loses it after this, and what it decided is not committed.
_SETTINGS: Final = "SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '10s'"
# By digests: a name may be longer than an index takes. Nothing but the key is indexed, and pages have room, so that an
# update stays where its row is. In `changes` gates of an earlier version keep what they add to a blob.
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS sg_gate_states "
    "(name BYTEA PRIMARY KEY, blob BYTEA NOT NULL, deadline DOUBLE PRECISION, changes BYTEA NOT NULL) "
    "WITH (fillfactor = 60); "
)
_HOLD: Final = (
    "SELECT pg_advisory_xact_lock(number) FROM unnest(ARRAY[{numbers}]::bigint[]) AS number; "
    # A statement of its own behind the locks: it sees what was committed until they were had.
    "SELECT name, blob, changes, extract(epoch FROM clock_timestamp())::float8 "
    "FROM (VALUES {asked}) AS asked (name) LEFT JOIN sg_gate_states USING (name)"
)
_DROP: Final = "DELETE FROM sg_gate_states WHERE name IN ({names}); "
_WRITE: Final = (
    "INSERT INTO sg_gate_states (name, blob, deadline, changes) VALUES {rows} "
    "ON CONFLICT (name) DO UPDATE SET blob = excluded.blob, deadline = excluded.deadline, changes = ''; "
)
_CREATE_LOCK: Final = 0x53_47_47_53  # two gates that start at once
# Of sessions that were idle for their time, and an hour more: they would begin anew. So of ends that hold no longer.
# Nobody waits here for a row that somebody holds.
_OLD: Final = "deadline < extract(epoch FROM clock_timestamp()) - 3600"
_LOCK_NUMBER: Final = "('x' || encode(substr(name, 1, 8), 'hex'))::bit(64)::bigint"
_PURGE: Final = (
    f"DELETE FROM sg_gate_states WHERE {_OLD} AND name IN "  # noqa: S608  # constants
    f"(SELECT name FROM (SELECT name FROM sg_gate_states WHERE {_OLD} LIMIT 1000) AS old "
    f"WHERE pg_try_advisory_xact_lock({_LOCK_NUMBER})); "
)
_PURGE_EVERY: Final = 4096  # commits
_ALERT: Final = b"sg_alert"  # their digests begin alike, to be found together; nobody locks them
_AFTER_ALERT: Final = b"sg_aleru"


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
        # The server is away, or has cut off one of two that wait for each other, or one that stood still.
        self._passing = (psycopg.OperationalError, psycopg.errors.IdleInTransactionSessionTimeout)
        self._address = address
        self._shown = redact_text(address)
        self._db: psycopg.Connection[Any] | None = None
        self._now = 0.0
        self._unpurged = 0
        self._held: dict[bytes, bytes | None] = {}  # rows that are locked, as they were read or will be written
        self._puts: dict[bytes, tuple[bytes, float | None]] = {}
        self._drops: set[bytes] = set()
        try:
            self._run(f"BEGIN; SELECT pg_advisory_xact_lock({_CREATE_LOCK}); {_TABLE}COMMIT")
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
                with self._clean_slate():
                    self._hold(asked, before="BEGIN; ")
                    found = work()
                    self._run(self._changes() + "COMMIT")
            except self._psycopg.Error as error:
                if not left or not isinstance(error, self._passing):
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

    def alerts(self) -> list[bytes]:
        """Return the rows of alerts that are not told yet, by whomever they were made."""
        sql = f"SELECT blob FROM sg_gate_states WHERE name >= {_literal(_ALERT)} AND name < {_literal(_AFTER_ALERT)}"  # noqa: S608  # constants
        return self.together((), lambda: [blob for (blob,) in self._run(sql)])

    def commit(self, meta: Mapping[str, bytes]) -> None:
        """Do nothing: what was put is committed when the work is done."""

    def close(self) -> None:
        """Close the connection."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _hold(self, names: Iterable[str], before: str = "") -> None:
        """Lock rows and read them; those that are locked already stay as they are."""
        # In the same order everywhere: two that want the same rows do not wait for each other.
        missing = sorted({_digest(name) for name in names} - self._held.keys(), key=_number)
        if not missing:
            if before:
                self._run(before)
            return
        numbers = ", ".join(str(_number(name)) for name in missing)
        asked = ", ".join(f"({_literal(name)})" for name in missing)
        for name, blob, changes, now in self._run(before + _HOLD.format(numbers=numbers, asked=asked)):
            self._held[name], self._now = blob if blob is None else append_all(blob, changes), now

    def _changes(self) -> str:
        """Return the statements that write what was put and dropped."""
        written = ""
        if self._drops:
            written += _DROP.format(names=", ".join(map(_literal, self._drops)))
        if self._puts:
            rows = (f"({_literal(name)}, {_values(*put)}, '')" for name, put in self._puts.items())
            written += _WRITE.format(rows=", ".join(rows))
        self._unpurged += 1
        if self._unpurged >= _PURGE_EVERY:
            self._unpurged = 0
            written += _PURGE
        return written

    @contextmanager
    def _clean_slate(self) -> Iterator[None]:
        """Begin and end with no row held; what went wrong leaves no transaction open."""
        try:
            yield
        except BaseException:
            self.close()
            raise
        finally:
            self._held.clear()
            self._puts.clear()
            self._drops.clear()

    def _run(self, sql: str) -> list[Any]:
        """Run statements in one exchange, and return the rows of the last.

        There are no values but digests, blobs and numbers of ours, as literals: parameters take one exchange for each
        statement.
        """
        done = self._connection().execute(sql)
        while done.nextset():
            pass
        return done.fetchall() if done.description is not None else []

    def _connection(self) -> Any:
        if self._db is None or self._db.closed:
            # Nothing is prepared: several statements at once cannot be.
            self._db = self._psycopg.connect(
                self._address, autocommit=True, connect_timeout=_PATIENCE, prepare_threshold=None
            )
            self._db.execute(_SETTINGS)
        return self._db

    def _explain(self, error: Exception) -> StoreError:
        message = redact_text(" ".join(str(error).split()))
        return StoreError(f"{self._shown}: {message}; see that the server runs and that the account may create tables")


def _digest(name: str) -> bytes:
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=32).digest()
    return _ALERT + digest[len(_ALERT) :] if name.startswith(ALERT_ROWS) else digest


def _literal(value: bytes) -> str:
    return f"'\\x{value.hex()}'::bytea"


def _values(blob: bytes, deadline: float | None) -> str:
    return f"{_literal(blob)}, {'NULL' if deadline is None else repr(deadline)}::float8"


def _number(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "big", signed=True)
