"""Retention: what is settled and old is pruned, a few rows in each transaction, and the audit says what went.

The audit is pruned from its beginning, and a row goes with the latest record about it: a review that has its answer, a
solved incident with its alerts and verdicts, an answer of the gate. What still counts (an open review, an approval that
is not used up, a bypass) is sealed anew at the end of the audit and stays; so does an incident that nobody has solved.
Each transaction writes a record of what it pruned, from which ``audit verify`` begins. A record or a row that is not
as it was written is evidence, and ends the pruning.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from math import inf
from threading import Event as Flag
from threading import Thread
from time import gmtime, strftime
from typing import Any, Final, NamedTuple, TypeAlias

from stream_guard.errors import StoreError
from stream_guard.history import bypasses, chain, incidents, review_rows, tallies
from stream_guard.history.chain import PRUNED, Head, is_intact, read_record
from stream_guard.history.database import Database, Statements, Value
from stream_guard.history.kept_events import KeptSession
from stream_guard.history.records import from_text
from stream_guard.settings import HistorySettings

_logger = logging.getLogger(__name__)

_RECORDS: Final = 200  # of one transaction: whoever else writes does not wait long
_ROWS: Final = 1_000  # the same of other rows
_TOGETHER: Final = 500  # keys in one statement
_FRESH: Final = 3600.0  # seconds in which no record goes for its number: answers are given again
_PAUSE: Final = 0.05  # seconds between two transactions
_EVERY: Final = 600.0  # seconds between two passes

_PAGE: Final = "SELECT number, digest, body FROM sg_audit WHERE number > ? ORDER BY number LIMIT ?"
_OLD_QUESTION: Final = (
    "opened < ? AND state NOT IN ('open', 'claimed') AND NOT EXISTS "
    "(SELECT 1 FROM sg_waiting WHERE sg_waiting.inquiry = sg_inquiries.id AND sg_waiting.state = 'waiting')"
)
# By the word that a record about one begins with, which is also where it has the id.
_SEALED: Final = {"review": review_rows, "bypass": bypasses}
_TABLES: Final = {"review": "sg_reviews", "bypass": "sg_bypasses", "incident": "sg_incidents"}
_Selected: TypeAlias = tuple[str, str, str, tuple[Value, ...]]
"""Rows that go: their table, a column to find them by, and which they are."""


class Cut(NamedTuple):
    """What a pass may prune. It stays the same while the pass works."""

    now: float  # by the clock of the database
    before: float  # what is older
    number: int  # and records of the audit up to this one, which are too many
    waiting: float  # but none since the oldest attempt that waits for a person


class _Due(NamedTuple):
    """A record that goes, and the row that goes with it."""

    head: Head
    time: float
    about: str = ""  # what the row is; empty where none goes with the record
    row: str = ""  # its id
    counts: bool = False  # whether the row stays, under a new record


def cut_of(database: Database, limits: HistorySettings) -> Cut:
    """Return what may be pruned now."""
    now = database.time()
    [(waiting,)] = database.read(
        "SELECT min(opened) FROM sg_reviews WHERE status IN ('open', 'approved') AND expires > ?", now
    )
    [(last,)] = database.read("SELECT max(number) FROM sg_audit")
    return Cut(
        now=now,
        before=-inf if limits.keep is None else now - limits.keep,
        number=int(last or 0) - limits.max_records,
        waiting=inf if waiting is None else float(waiting),
    )


def prune(database: Database, limits: HistorySettings, stop: Flag | None = None) -> Counter[str]:
    """Prune until nothing is left, or until told to stop; return how many rows went, by table.

    Between two transactions others have their turn. A process that is killed leaves what its last transaction left.
    """
    cut, stop, pruned = cut_of(database, limits), stop or Flag(), Counter[str]()
    for step in (_prune_audit, _prune_by_age, _prune_sessions):
        while not stop.is_set():
            with database.transaction() as statements:
                gone = step(statements, cut)
            if not gone:
                break
            pruned += gone
            stop.wait(_PAUSE)
    return pruned


def would_prune(database: Database, limits: HistorySettings) -> Counter[str]:
    """Return how many rows ``prune`` would take out now, by table. Nothing is written, and nobody waits."""
    cut, reading, found = cut_of(database, limits), _Reading(database), Counter[str]()
    last = _Due(Head(0, chain.START), -inf)
    while page := list(_due(reading, cut, last.head.number)):
        found["sg_audit"] += len(page)
        for due in page:
            if due.about and not due.counts:
                found[_TABLES[due.about]] += 1
            if due.about == "incident":
                [(entries,)] = database.read("SELECT count(*) FROM sg_timeline WHERE incident = ?", due.row)
                found["sg_timeline"] += int(entries)
        last = page[-1]
    [(first,)] = database.read("SELECT min(number) FROM sg_audit WHERE number > ?", last.head.number)
    by_age = _of_age(cut, int(first or last.head.number + 1))
    for table, _, where, values in (_policies_of(last.time), *by_age):
        [(number,)] = database.read(f"SELECT count(*) FROM {table} WHERE {where}", *values)  # noqa: S608  # constants
        found[table] += int(number)
    for key in _old_sessions(reading, cut):
        [(events,)] = database.read("SELECT count(*) FROM sg_events WHERE session = ?", key)
        found.update(sg_sessions=1, sg_events=int(events))
    return +found


class Pruner:
    """Keeps a history to its limits from a thread of its own, over a connection that nobody else uses."""

    def __init__(self, database: Database, limits: HistorySettings) -> None:
        self._database = database
        self._limits = limits
        self._stop = Flag()
        self._thread = Thread(target=self._run, name="stream_guard-prune", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End after the transaction that runs, and close the connection."""
        self._stop.set()
        self._thread.join()
        self._database.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                prune(self._database, self._limits, self._stop)
            except StoreError as error:
                _logger.error("the history is not pruned: %s", error)  # noqa: TRY400  (it says why)
            except Exception:  # a row that nobody can read must not end the process, or the next pass
                _logger.exception("the history is not pruned")
            self._stop.wait(_EVERY)


class _Reading:
    """Statements that only read, outside of a transaction."""

    def __init__(self, database: Database) -> None:
        self.run, self.time, self.key = database.read, database.time, database.key


def _prune_audit(statements: Statements, cut: Cut) -> Counter[str]:
    """Prune the first records of the audit, as many as are due, with their rows."""
    gone, left, last = Counter[str](), _ROWS, None
    for due in _due(statements, cut):
        if due.about == "incident":
            entries = incidents.remove_findings(statements, due.row, first=1, last=2**62, most=left)
            gone["sg_timeline"] += entries
            left -= entries
            if not left:  # its record goes when all of its findings are gone
                break
        if due.counts:
            _SEALED[due.about].seal_anew(statements, due.row, cut.now)
        elif due.about:
            table = _TABLES[due.about]
            statements.run(f"DELETE FROM {table} WHERE id = ?", due.row)  # noqa: S608  # one of three
            gone[table] += 1
        gone["sg_audit"] += 1
        last = due
    if last is not None:
        # Those of the first records first: what let an attempt through goes with the record that seals it.
        gone += _delete(statements, _rulings_of(last.head.number), "record")
        gone += _delete(statements, _policies_of(last.time), "number")
        # Before the first record is gone: nothing is appended to a chain whose end is not intact.
        rows = {table: number for table, number in sorted(gone.items()) if number}
        pruned = {"through": last.head.number, "digest": last.head.digest, "until": last.time, "rows": rows}
        chain.append(statements, PRUNED, cut.now, pruned)
        statements.run("DELETE FROM sg_audit WHERE number <= ?", last.head.number)
    return gone


def _due(statements: Statements, cut: Cut, after: int = 0) -> Iterator[_Due]:
    """Yield the next records that are to go, in order; StoreError where one is not as it was written."""
    before, through = "", _through(statements, cut, after)
    for number, digest, body in statements.run(_PAGE, after, _RECORDS):
        if number > through:
            return
        record = read_record(body)
        known = is_intact(digest, body, statements.key) or is_intact(digest, body)
        if not known or record.get("number") != number or before not in ("", record.get("previous")):
            raise _damage(f"record {number} was changed, or signed with another key")
        before = digest
        yield _row_of(statements, record, _Due(Head(number, digest), float(record["time"])), cut)


def _through(statements: Statements, cut: Cut, after: int) -> int:
    """Return the last of the next records that is to go.

    A stamp of the future, by a clock that was wrong, says nothing: such a record is as old as those behind it.
    """
    last, place = 0, after
    while not last and (rows := statements.run(_PAGE, place, _RECORDS)):
        for number, _, body in rows:
            time = float(read_record(body).get("time", cut.before))
            if (time < cut.before or (number <= cut.number and time < cut.now - _FRESH)) and time < cut.waiting:
                last = number
            elif time <= cut.now:
                return last
        place = rows[-1][0]
    return last


def _row_of(statements: Statements, record: dict[str, Any], due: _Due, cut: Cut) -> _Due:
    """Return with a record the row that it is the latest about, if it is."""
    about, _, what = str(record.get("what")).partition("_")
    name, number = str(record.get(about)), due.head.number
    if (about, what) == ("incident", "solved") and incidents.is_over(statements, name, due.time):
        return due._replace(about=about, row=name)
    if about not in _SEALED:
        return due
    state = _SEALED[about].state_at(statements, name, record, cut.before)
    if state == "changed":
        raise _damage(f"the row of {about} {name} is not what record {number} says")
    return due if state == "later" else due._replace(about=about, row=name, counts=state == "counts")


def _damage(what: str) -> StoreError:
    return StoreError(f"{what}: nothing is pruned, as it is evidence; run: stream-guard audit verify")


def _rulings_of(number: int) -> _Selected:
    return "sg_rulings", "attempt", "record <= ?", (number,)


def _policies_of(time: float) -> _Selected:
    """Return the policies that had been replaced by then."""
    return "sg_policies", "number", "number < (SELECT max(number) FROM sg_policies WHERE since <= ?)", (time,)


def _of_age(cut: Cut, first: int) -> tuple[_Selected, ...]:
    """Return the rows that go by their age; ``first`` is the first record that stays."""
    return (
        _rulings_of(first - 1),
        ("sg_ended", "session", "noted < ? AND record < ?", (cut.before, first)),
        (
            "sg_waiting",
            "alert",
            f"state = 'told' AND inquiry IN (SELECT id FROM sg_inquiries WHERE {_OLD_QUESTION})",  # noqa: S608  # constants
            (cut.before,),
        ),
        ("sg_inquiries", "id", _OLD_QUESTION, (cut.before,)),
        ("sg_budgets", "day", "day < ?", (strftime("%Y-%m-%d", gmtime(max(0.0, cut.before))),)),
        ("sg_tallies", "bucket", "bucket < ?", (tallies.oldest_bucket(cut.now),)),
        ("sg_acs_sessions", "session", "noted < ?", (cut.before,)),
    )


def _prune_by_age(statements: Statements, cut: Cut) -> Counter[str]:
    """Prune rows that go by their age, of the first table that has some."""
    [(first,)] = statements.run("SELECT min(number) FROM sg_audit")
    for selected in _of_age(cut, int(first or 0)):
        if gone := _delete(statements, selected, selected[1]):
            return gone
    return Counter()


def _delete(statements: Statements, selected: _Selected, order: str) -> Counter[str]:
    """Delete the first of the rows that go, by their keys: who else writes does not wait for all of them."""
    table, key, where, values = selected
    gone = Counter[str]()
    keys = statements.run(f"SELECT {key} FROM {table} WHERE {where} ORDER BY {order} LIMIT ?", *values, _ROWS)  # noqa: S608  # constants
    for begin in range(0, len(keys), _TOGETHER):
        some = [found for (found,) in keys[begin : begin + _TOGETHER]]
        chosen = f"{key} IN ({', '.join('?' * len(some))}) AND {where}"
        [(number,)] = statements.run(f"SELECT count(*) FROM {table} WHERE {chosen}", *some, *values)  # noqa: S608  # constants
        statements.run(f"DELETE FROM {table} WHERE {chosen}", *some, *values)  # noqa: S608  # constants
        gone[table] += int(number)
    return gone


def _old_sessions(statements: Statements, cut: Cut) -> Iterator[str]:
    """Yield the keys of the sessions whose events are too old, the one that was silent for longest first."""
    after = 0
    while rows := statements.run(
        "SELECT session, seen, body FROM sg_sessions WHERE seen > ? ORDER BY seen LIMIT ?", after, _TOGETHER
    ):
        for key, after, body in rows:  # noqa: B007  (the next page begins after the last of them)
            if from_text(body, KeptSession).noted >= cut.before:
                return
            yield key


def _prune_sessions(statements: Statements, cut: Cut) -> Counter[str]:
    """Prune events of the session that was silent for longest, and the session with the last of them."""
    key = next(_old_sessions(statements, cut), None)
    if key is None:
        return Counter()
    rows = statements.run("SELECT number FROM sg_events WHERE session = ? ORDER BY number LIMIT ?", key, _ROWS)
    if rows:
        statements.run("DELETE FROM sg_events WHERE session = ? AND number <= ?", key, rows[-1][0])
    gone = Counter(sg_events=len(rows))
    if len(rows) < _ROWS:
        statements.run("DELETE FROM sg_sessions WHERE session = ?", key)
        gone["sg_sessions"] += 1
    return gone
