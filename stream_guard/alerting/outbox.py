"""The outbox: alerts on disk between the stream and each sink, until the sink has them."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from stream_guard.alerting.alerts import decode_alert, encode_alert
from stream_guard.errors import StoreError
from stream_guard.judge.model import Alert
from stream_guard.storage.sqlite_files import PRIVATE, SqliteFile, SqliteMark, explain_failure

MARK: Final = SqliteMark(
    "an outbox",
    application=0x53_47_4F_42,  # "SGOB"
    version=1,
    other_version="let the stream_guard that wrote it send what is in it, then move the file away",
    full="no space left for alerts that wait to be sent; free some and run again, nothing is lost",
    damaged="the outbox is damaged; move it away, and look there for what was not sent",
)

State: TypeAlias = Literal["waiting", "held", "active", "sent", "summed", "dead"]
"""waiting: to be sent. held: to be summed up. active: the receiver shows it, and is reminded of it. sent: only the id
is kept. summed: counted in a summary. dead: refused, or not taken for too long."""

_logger = logging.getLogger(__name__)

_COLUMNS: Final = "number, sink, state, queued, due, tries, problem, body"
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS outbox (
    number INTEGER PRIMARY KEY, sink TEXT NOT NULL, alert BLOB NOT NULL, subject BLOB NOT NULL, state TEXT NOT NULL,
    queued REAL NOT NULL, due REAL NOT NULL, tries INTEGER NOT NULL DEFAULT 0, problem TEXT NOT NULL DEFAULT '',
    body BLOB NOT NULL, UNIQUE (sink, alert))
"""
_INDEXES: Final = (
    "CREATE INDEX IF NOT EXISTS outbox_by_state ON outbox (sink, state, number)",
    # In a flood thousands are held back, and the oldest of them is asked for again and again.
    "CREATE INDEX IF NOT EXISTS outbox_by_age ON outbox (sink, state, queued)",
)
_ROW: Final = 1_000  # bytes that a row takes at most beside its body, which is counted twice


class Queued(NamedTuple):
    """An alert in the outbox, on its way to one sink."""

    number: int
    sink: str
    state: State
    queued: float  # when it came in, by the clock of the wall
    due: float  # waiting: not to be sent before; active: when it ends
    tries: int  # how often it failed alone
    problem: str  # why the last try failed
    alert: Alert


class AlertOutbox(SqliteFile):
    """Alerts by sink, in one SQLite file that one process at a time sends from; any thread may use it.

    What ``put`` was given is on disk when it returns. An alert that a sink had before is not queued for it again, as
    long as its id is kept. After a power failure an alert that was sent may be sent once more.
    """

    def __init__(self, path: Path, *, max_bytes: int = 1 << 30, shared: bool = False) -> None:
        self._max_bytes = max_bytes
        self._room = 0  # bytes that may come in before the size is looked at again
        # Whoever only looks, or asks for another try, does not disturb whoever sends.
        self._claimed = -1 if shared else _claim(path)
        super().__init__(path, MARK, _prepare, patience=10.0)

    def put(self, rows: Iterable[tuple[str, Alert, State]], now: float) -> int:
        """Queue alerts, each for a sink; return how many are new there. They are on disk then; StoreError otherwise."""
        values = [
            (sink, _key(alert.alert_id), subject_of(alert), state, now, now, encode_alert(alert))
            for sink, alert, state in rows
        ]
        if not values:
            return 0
        self._make_room(sum(_ROW + 2 * len(row[-1]) for row in values))
        with self.write(durable=True) as db:
            before = db.total_changes
            db.executemany(
                "INSERT INTO outbox (sink, alert, subject, state, queued, due, body) VALUES (?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (sink, alert) DO NOTHING",
                values,
            )
            return db.total_changes - before

    def take(self, sink: str, state: State, most: int, *, due: float | None = None, after: int = 0) -> list[Queued]:
        """Return the first rows of a sink in a state, at most so many; they stay where they are."""
        where = "sink = ? AND state = ? AND number > ?" + ("" if due is None else " AND due <= ?")
        values = (sink, state, after) if due is None else (sink, state, after, due)
        return self._rows(f"WHERE {where} ORDER BY number LIMIT ?", *values, most)

    def listing(self, state: State, sink: str = "", most: int = 100) -> list[Queued]:
        """Return the latest rows in a state, of one sink or of all."""
        if sink:
            return self._rows("WHERE sink = ? AND state = ? ORDER BY number DESC LIMIT ?", sink, state, most)
        return self._rows("WHERE state = ? ORDER BY number DESC LIMIT ?", state, most)

    def next_due(self, sink: str) -> float | None:
        """Return when the first waiting row may be sent; None when none waits."""
        [(due,)] = self.query("SELECT min(due) FROM outbox WHERE sink = ? AND state = 'waiting'", sink)
        return due if due is None else float(due)

    def oldest(self, sink: str, state: State) -> float | None:
        """Return when the oldest row in a state was queued; None when there is none."""
        [(queued,)] = self.query("SELECT min(queued) FROM outbox WHERE sink = ? AND state = ?", sink, state)
        return queued if queued is None else float(queued)

    def depths(self, sink: str) -> dict[str, int]:
        """Return how many rows of a sink there are in each state, those that were sent left out."""
        # A seek for each state: what was sent is by far the most, and nobody asks for it.
        states: tuple[State, ...] = ("waiting", "held", "active", "dead")
        sql = "SELECT count(*) FROM outbox WHERE sink = ? AND state = ?"
        return {state: self.query(sql, sink, state)[0][0] for state in states}

    def sinks(self) -> dict[str, int]:
        """Return the sinks that something waits for, and how much."""
        rows = self.query(
            "SELECT sink, count(*) FROM outbox WHERE state IN ('waiting', 'held') GROUP BY sink ORDER BY sink"
        )
        return dict(rows)

    def finish(self, rows: Sequence[Queued], state: Literal["sent", "summed"] = "sent") -> None:
        """Say that the sink has these; of what was sent, only the id is kept."""
        body = "body" if state == "summed" else "x''"
        with self.write() as db:
            sql = f"UPDATE outbox SET state = ?, problem = '', body = {body} WHERE number = ?"  # noqa: S608  # no value is in the text
            db.executemany(sql, [(state, row.number) for row in rows])

    def activate(self, rows: Sequence[Queued], until: float) -> None:
        """Say that the receiver has these and shows them until then; of one subject, only the latest stays active."""
        with self.write() as db:
            for row in rows:
                subject = subject_of(row.alert)
                db.execute(
                    "UPDATE outbox SET state = 'sent', body = x'' WHERE sink = ? AND subject = ? AND state = 'active'",
                    (row.sink, subject),
                )
                db.execute(
                    "UPDATE outbox SET state = 'active', due = ?, problem = '' WHERE number = ?", (until, row.number)
                )

    def put_off(self, row: Queued, until: float, problem: str) -> None:
        """Let others go first: this one failed alone."""
        self._set("due = ?, tries = tries + 1, problem = ?", (until, problem), [row])

    def hasten(self, sink: str, now: float) -> None:
        """Let everything that was put off be sent now."""
        with self.write() as db:
            db.execute("UPDATE outbox SET due = ? WHERE sink = ? AND state = 'waiting' AND due > ?", (now, sink, now))

    def bury(self, rows: Sequence[Queued], problem: str) -> None:
        """Give these up: they are kept as dead letters, with the reason."""
        self._set("state = 'dead', problem = ?", (problem,), rows)

    def replace(self, rows: Sequence[Queued], summaries: Sequence[Alert], now: float) -> None:
        """Queue summaries in place of the rows they sum up, which are kept as ``summed``."""
        if not rows:
            return
        sink = rows[0].sink
        with self.write(durable=True) as db:
            db.executemany("UPDATE outbox SET state = 'summed' WHERE number = ?", [(row.number,) for row in rows])
            db.executemany(
                "INSERT INTO outbox (sink, alert, subject, state, queued, due, body) "
                "VALUES (?, ?, ?, 'waiting', ?, ?, ?) ON CONFLICT (sink, alert) DO NOTHING",
                [(sink, _key(one.alert_id), subject_of(one), now, now, encode_alert(one)) for one in summaries],
            )

    def retry(self, sink: str, now: float, state: State = "dead") -> int:
        """Queue what was given up, or summed up, once more; return how many. A sink of no name means all."""
        where, values = ("AND sink = ?", (sink,)) if sink else ("", ())
        with self.write(durable=True) as db:
            before = db.total_changes
            db.execute(
                f"UPDATE outbox SET state = 'waiting', due = ?, queued = ?, tries = 0 WHERE state = ? {where}",  # noqa: S608  # no value is in the text
                (now, now, state, *values),
            )
            return db.total_changes - before

    def drop(self, sink: str, state: State) -> int:
        """Forget the rows of a state; return how many there were."""
        where, values = ("AND sink = ?", (sink,)) if sink else ("", ())
        with self.write() as db:
            before = db.total_changes
            db.execute(f"DELETE FROM outbox WHERE state = ? {where}", (state, *values))  # noqa: S608  # no value is in the text
            return db.total_changes - before

    def prune(self, before: float) -> None:
        """Forget what was sent or summed up before then. Dead letters stay until somebody decides about them."""
        with self.write() as db:
            db.execute("DELETE FROM outbox WHERE state IN ('sent', 'summed') AND queued < ?", (before,))

    def close(self) -> None:
        """Close the file, and let others send from it. Closing twice is harmless."""
        super().close()
        if self._claimed >= 0:
            os.close(self._claimed)
            self._claimed = -1

    def _set(self, change: str, values: tuple[object, ...], rows: Sequence[Queued]) -> None:
        with self.write() as db:
            sql = f"UPDATE outbox SET {change} WHERE number = ?"  # noqa: S608  # no value is in the text
            db.executemany(sql, [(*values, row.number) for row in rows])

    def _rows(self, rest: str, *values: object) -> list[Queued]:
        rows = self.query(f"SELECT {_COLUMNS} FROM outbox {rest}", *values)  # noqa: S608  # no value is in the text
        found: list[Queued] = []
        for row in rows:
            try:
                found.append(Queued._make((*row[:-1], decode_alert(row[-1]))))
            except (ValueError, TypeError, RecursionError) as error:
                self._bury_unreadable(row[0], row[1], error)
        return found

    def _bury_unreadable(self, number: int, sink: str, error: Exception) -> None:
        """Keep a row that holds no alert any more out of the way of the others; its bytes stay where they are."""
        _logger.error("%s: row %d for %s cannot be read and is set aside: %s", self.path, number, sink, error)
        with self.write() as db:
            db.execute("UPDATE outbox SET state = 'damaged' WHERE number = ?", (number,))

    def _make_room(self, needed: int) -> None:
        """Make room where the outbox is full; how full it is, is not asked for each alert."""
        if needed > self._room:
            self._room = self._max_bytes - self._size()
        if self._room < 0:
            with self.write() as db:
                db.execute("DELETE FROM outbox WHERE state IN ('sent', 'summed')")
            self._room = self._max_bytes - self._size()
        if self._room < 0:
            raise StoreError(
                f"{self.path}: alerts for sinks that do not take them fill the outbox ({self._max_bytes} bytes); "
                "see `stream-guard outbox list`, bring the sinks back, or raise delivery.max_bytes"
            )
        self._room -= needed

    def _size(self) -> int:
        [(size,)] = self.query(
            "SELECT (page_count - freelist_count) * page_size "
            "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        return int(size)


def _claim(path: Path) -> int:
    """Take the right to send from an outbox, for as long as what is returned is open."""
    try:
        lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE)
    except OSError as error:
        raise explain_failure(path, error, MARK) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise StoreError(
            f"{path}: another process sends from this outbox; stop it, or set delivery.outbox for each"
        ) from None
    return lock


def _prepare(db: sqlite3.Connection) -> None:
    for statement in (_TABLE, *_INDEXES):
        db.execute(statement)


def subject_of(alert: Alert) -> bytes:
    """Return what all alerts of one rule in one session have in common. A review, or a summary, is one of its own."""
    own = "" if alert.session_id and alert.kind != "stream_guard_review" else alert.alert_id
    return sha256(_key(f"{alert.rule_id}\0{alert.session_id}\0{alert.kind}\0{own}")).digest()[:16]


def _key(text: str) -> bytes:
    # As bytes: in-process callers may use ids with lone surrogates, which no database takes as text.
    return text.encode("utf-8", "surrogatepass")
