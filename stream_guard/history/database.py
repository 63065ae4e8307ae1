"""The database of the history: its tables, one interface to SQLite and Postgres, and both of them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Final, Protocol, TypeAlias

from stream_guard.distribution import install_line
from stream_guard.errors import StoreError
from stream_guard.storage.sqlite_files import SqliteFile, SqliteMark

Value: TypeAlias = str | int | float | None
Row: TypeAlias = tuple[Any, ...]

_logger = logging.getLogger(__name__)
_MARK: Final = SqliteMark(
    "a history",
    application=0x53_47_48_49,  # "SGHI"
    full="no space left for the history; free some and try again, what was written stands",
    damaged="the history is damaged; restore it from a backup, or start a new one elsewhere",
    locked="another process has been writing to this history for too long; see what it waits for",
)
_PATIENCE: Final = 10.0  # seconds to wait for another process that writes

VERSION: Final = 3  # of the tables below, in the SQL that SQLite and Postgres share
# The whole record is in ``body``, as JSON in ASCII: ids come from agents, and Postgres stores neither NUL characters
# nor halves of surrogate pairs. The other columns are for finding it; ids in them are digests.
TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS sg_history (version BIGINT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS sg_audit (number BIGINT PRIMARY KEY, digest TEXT NOT NULL, body TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS sg_reviews (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, status TEXT NOT NULL, opened DOUBLE PRECISION NOT NULL,
        expires DOUBLE PRECISION, binding TEXT NOT NULL, attempt TEXT NOT NULL, body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS sg_reviews_binding ON sg_reviews (binding)",
    "CREATE INDEX IF NOT EXISTS sg_reviews_attempt ON sg_reviews (attempt)",
    "CREATE INDEX IF NOT EXISTS sg_reviews_status ON sg_reviews (status, opened)",
    """CREATE TABLE IF NOT EXISTS sg_incidents (
        id TEXT PRIMARY KEY, status TEXT NOT NULL, opened DOUBLE PRECISION NOT NULL, body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS sg_incidents_status ON sg_incidents (status, opened)",
    """CREATE TABLE IF NOT EXISTS sg_timeline (
        incident TEXT NOT NULL, number BIGINT NOT NULL, entry TEXT NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (incident, number), UNIQUE (incident, entry))""",
    # ``record``: the latest audit record about it; both are pruned together.
    """CREATE TABLE IF NOT EXISTS sg_rulings (
        attempt TEXT PRIMARY KEY, call TEXT NOT NULL, body TEXT NOT NULL, record BIGINT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS sg_rulings_call ON sg_rulings (call)",
    "CREATE INDEX IF NOT EXISTS sg_rulings_record ON sg_rulings (record)",
    """CREATE TABLE IF NOT EXISTS sg_ended (
        session TEXT PRIMARY KEY, body TEXT NOT NULL, record BIGINT NOT NULL, noted DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS sg_ended_noted ON sg_ended (noted)",
    "CREATE INDEX IF NOT EXISTS sg_incidents_opened ON sg_incidents (opened, id)",
    "CREATE INDEX IF NOT EXISTS sg_reviews_opened ON sg_reviews (opened, id)",
    # What the page lists.
    """CREATE TABLE IF NOT EXISTS sg_alerts (
        number BIGINT PRIMARY KEY, id TEXT NOT NULL UNIQUE, session TEXT NOT NULL, rule TEXT NOT NULL,
        severity BIGINT NOT NULL, agent TEXT NOT NULL, tenant TEXT NOT NULL, noted DOUBLE PRECISION NOT NULL,
        body TEXT NOT NULL)""",
    # The number of the latest alert that was pruned: no number is given twice.
    "CREATE TABLE IF NOT EXISTS sg_pruned (number BIGINT PRIMARY KEY)",
    "CREATE INDEX IF NOT EXISTS sg_alerts_session ON sg_alerts (session, number)",
    "CREATE INDEX IF NOT EXISTS sg_alerts_rule ON sg_alerts (rule, number)",
    "CREATE INDEX IF NOT EXISTS sg_alerts_severity ON sg_alerts (severity, number)",
    "CREATE INDEX IF NOT EXISTS sg_alerts_agent ON sg_alerts (agent, number)",
    "CREATE INDEX IF NOT EXISTS sg_alerts_tenant ON sg_alerts (tenant, number)",
    "CREATE INDEX IF NOT EXISTS sg_alerts_tenant_rule ON sg_alerts (tenant, rule, number)",
    """CREATE TABLE IF NOT EXISTS sg_sessions (
        session TEXT PRIMARY KEY, seen BIGINT NOT NULL, tenant TEXT NOT NULL, events BIGINT NOT NULL,
        body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS sg_sessions_seen ON sg_sessions (seen)",
    """CREATE TABLE IF NOT EXISTS sg_events (
        session TEXT NOT NULL, number BIGINT NOT NULL, entry TEXT NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (session, number), UNIQUE (session, entry))""",
    """CREATE TABLE IF NOT EXISTS sg_tallies (
        what TEXT NOT NULL, name TEXT NOT NULL, tenant TEXT NOT NULL, bucket BIGINT NOT NULL, count BIGINT NOT NULL,
        PRIMARY KEY (what, name, tenant, bucket))""",
    "CREATE INDEX IF NOT EXISTS sg_tallies_bucket ON sg_tallies (bucket)",
    """CREATE TABLE IF NOT EXISTS sg_verdicts (
        alert TEXT PRIMARY KEY, rule TEXT NOT NULL, tenant TEXT NOT NULL, verdict TEXT NOT NULL, body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS sg_verdicts_rule ON sg_verdicts (rule, verdict)",
    """CREATE TABLE IF NOT EXISTS sg_bypasses (
        id TEXT PRIMARY KEY, expires DOUBLE PRECISION NOT NULL, body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS sg_bypasses_expires ON sg_bypasses (expires)",
    """CREATE TABLE IF NOT EXISTS sg_policies (
        number BIGINT PRIMARY KEY, version TEXT NOT NULL, since DOUBLE PRECISION NOT NULL, body TEXT NOT NULL)""",
    # What judges are asked. An alert waits for the answer; budgets are by day.
    """CREATE TABLE IF NOT EXISTS sg_inquiries (
        id TEXT PRIMARY KEY, state TEXT NOT NULL, rule TEXT NOT NULL, tenant TEXT NOT NULL,
        opened DOUBLE PRECISION NOT NULL, until DOUBLE PRECISION NOT NULL, body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS sg_inquiries_state ON sg_inquiries (state, until)",
    "CREATE INDEX IF NOT EXISTS sg_inquiries_opened ON sg_inquiries (opened, id)",
    """CREATE TABLE IF NOT EXISTS sg_waiting (
        alert TEXT NOT NULL, owner TEXT NOT NULL, inquiry TEXT NOT NULL, state TEXT NOT NULL,
        until DOUBLE PRECISION NOT NULL, body TEXT NOT NULL, PRIMARY KEY (alert, owner))""",
    "CREATE INDEX IF NOT EXISTS sg_waiting_inquiry ON sg_waiting (inquiry)",
    "CREATE INDEX IF NOT EXISTS sg_waiting_owner ON sg_waiting (owner, state)",
    """CREATE TABLE IF NOT EXISTS sg_budgets (
        scope TEXT NOT NULL, name TEXT NOT NULL, day TEXT NOT NULL, calls BIGINT NOT NULL, nanos BIGINT NOT NULL,
        PRIMARY KEY (scope, name, day))""",
    # Rules that were learned, and what people said to them.
    """CREATE TABLE IF NOT EXISTS sg_lessons (
        id TEXT PRIMARY KEY, number BIGINT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL)""",
    # Of clients that speak ACS.
    """CREATE TABLE IF NOT EXISTS sg_acs_sessions (
        session TEXT PRIMARY KEY, body TEXT NOT NULL, noted DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS sg_acs_sessions_noted ON sg_acs_sessions (noted)",
    "CREATE TABLE IF NOT EXISTS sg_acs_requests (request TEXT PRIMARY KEY, seen DOUBLE PRECISION NOT NULL)",
    "CREATE INDEX IF NOT EXISTS sg_acs_requests_seen ON sg_acs_requests (seen)",
)


class Statements(Protocol):
    """Runs statements inside a transaction; ``key`` is the secret that records are signed with, empty for none."""

    key: bytes

    def run(self, sql: str, *values: Value) -> list[Row]:
        """Run one statement, with ``?`` for each value, and return its rows."""

    def time(self) -> float:
        """Return the time by the clock of whatever holds the database."""


class Database(Protocol):
    """Where the history is kept. Safe to use from many threads and many processes."""

    key: bytes

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[Statements]:
        """Run several statements, all or none, without another writer meanwhile. Errors are StoreError.

        What is ``durable`` is on the disk when this returns: a power failure after it loses nothing of it.
        """

    def read(self, sql: str, *values: Value) -> list[Row]:
        """Return the rows of one query, without a lock on writers."""

    def time(self) -> float:
        """Return the time by the clock of whatever holds the database."""

    def close(self) -> None:
        """Close the connection."""


def prepare(statements: Statements, where: str) -> None:
    """Create missing tables, and bring those of version 2 up to date; StoreError for any other version."""
    statements.run(TABLES[0])
    versions = [version for (version,) in statements.run("SELECT version FROM sg_history")]
    version = int(versions[0]) if versions else VERSION
    if version not in (2, VERSION):
        raise StoreError(
            f"{where}: a history of version {version}, this is version {VERSION}; "
            "use the stream_guard that wrote it, or start a new history elsewhere"
        )
    tables = [sql for sql in TABLES if sql.startswith("CREATE TABLE")]
    for sql in tables:
        statements.run(sql)
    if version == 2:
        _logger.info("%s: the history is brought from version %d to %d", where, version, VERSION)
        _name_records(statements)
    for sql in TABLES:  # behind the step: it adds columns that indexes are on
        if sql not in tables:
            statements.run(sql)
    if not versions:
        statements.run("INSERT INTO sg_history VALUES (?)", VERSION)
    elif version != VERSION:
        statements.run("UPDATE sg_history SET version = ?", VERSION)


def _name_records(statements: Statements) -> None:
    """2 to 3: rows name the audit record with which they are pruned; those of before, the latest one."""
    [(latest,)] = statements.run("SELECT COALESCE(max(number), 0) FROM sg_audit")
    number, now = int(latest), statements.time()
    for table, columns, added in (
        ("sg_rulings", "attempt, call, body", (number,)),
        ("sg_ended", "session, body", (number, now)),
        ("sg_acs_sessions", "session, body", (now,)),
    ):
        statements.run(f"CREATE TABLE sg_before AS SELECT {columns} FROM {table}")  # noqa: S608  # constants
        statements.run(f"DROP TABLE {table}")
        statements.run(next(sql for sql in TABLES if f" {table} (" in sql))
        marks = ", ?" * len(added)
        statements.run(f"INSERT INTO {table} SELECT {columns}{marks} FROM sg_before", *added)  # noqa: S608  # constants
        statements.run("DROP TABLE sg_before")
    # What let an attempt through is sealed by a record of its own.
    for attempt, body in statements.run("SELECT attempt, body FROM sg_rulings WHERE NOT body LIKE ?", '%"record": 0,%'):
        if record := json.loads(body).get("record"):
            statements.run("UPDATE sg_rulings SET record = ? WHERE attempt = ?", record, attempt)


class SqliteDatabase(SqliteFile):
    """A history in one file."""

    def __init__(self, path: Path, key: bytes = b"") -> None:
        self.key = key
        super().__init__(path, _MARK, lambda _: prepare(self, str(path)), patience=_PATIENCE)

    def run(self, sql: str, *values: Value) -> list[Row]:
        """Run one statement of the transaction that is open."""
        return self.connection().execute(sql, values).fetchall()

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[Statements]:
        """Begin as a writer, so that nothing that is read inside changes before the end."""
        with self.write(durable=durable):
            yield self

    def read(self, sql: str, *values: Value) -> list[Row]:
        """Return the rows of one query."""
        return self.query(sql, *values)

    def time(self) -> float:
        """Return this machine's time."""
        return time.time()


_LOCK: Final = 0x53_47_48_49  # held by every transaction that writes: the audit chain has one end
_FIRST_ANSWER: Final = 10  # seconds to wait for the server's first answer
# A server that is frozen in a transaction would keep every other one waiting.
_SETTINGS: Final = "SET idle_in_transaction_session_timeout = '5s'"
# A server may be set to commit before the disk has it. Stricter settings than "on" stay.
_DURABLE: Final = (
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
)


class PostgresDatabase:
    """A history that several servers share. A broken connection is opened again at the next use."""

    def __init__(self, address: str, key: bytes = b"") -> None:
        try:
            import psycopg  # noqa: PLC0415  (an extra)
        except ModuleNotFoundError as error:
            raise StoreError(
                f"a history in Postgres needs psycopg; install it with: {install_line('postgres')}"
            ) from error
        self._psycopg = psycopg
        self.key = key
        self._address = address
        from stream_guard.redaction import redact_text  # noqa: PLC0415  # commands are declared without its patterns

        self._shown = redact_text(address)
        self._lock = RLock()
        self._db: psycopg.Connection[Row] | None = None
        with self.transaction() as statements:
            prepare(statements, self._shown)

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
            self._db = self._psycopg.connect(self._address, autocommit=True, connect_timeout=_FIRST_ANSWER)
            self._db.execute(_SETTINGS)
        return self._db

    def _explain(self, error: Exception) -> StoreError:
        from stream_guard.redaction import redact_text  # noqa: PLC0415  # as above

        message = redact_text(" ".join(str(error).split()))
        return StoreError(f"{self._shown}: {message}; see that the server runs and that the account may create tables")


def is_postgres(address: str) -> bool:
    """Whether an address is that of a Postgres database."""
    return address.startswith(("postgresql://", "postgres://"))


def open_database(address: str, key: bytes = b"") -> Database:
    """Return the database at a path or a ``postgresql://`` address; ``key`` signs records.

    Its tables are created, or brought up to date where an earlier version wrote them.
    """
    if is_postgres(address):
        return PostgresDatabase(address, key)
    if "://" in address:
        scheme = address.partition("://")[0]
        raise StoreError(f"a history cannot be kept at {scheme}://...; give a file's path or postgresql://host/name")
    return SqliteDatabase(Path(address), key)
