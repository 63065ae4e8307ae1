"""Steps that bring a history of an earlier version up to date, one version at a time, all or nothing.

A step is written when something that was there changes its meaning, or has to be filled in; tables and indexes that are
only added need none. Write the step from the version before, raise ``VERSION`` in ``database.py``, and add a history of
the version before to the tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nlargest
from typing import Final

from stream_guard.history.alert_rows import insert
from stream_guard.history.chain import head_of
from stream_guard.history.database import TABLES, Statements, Step
from stream_guard.history.incidents import Entry, Incident
from stream_guard.history.records import from_text
from stream_guard.history.seals import read_record
from stream_guard.judge.model import Alert

_AT_ONCE: Final = 1000  # rows that are read together
_LISTED: Final = 100_000  # findings of before that are listed: a step must end while somebody waits for the start


def _list_findings(statements: Statements) -> None:
    """1 to 2: the list of alerts begins with the findings that incidents have, the latest ones, in order of time."""
    latest = nlargest(_LISTED, _findings(statements), key=lambda found: found[0].time)
    incidents: dict[str, Incident] = {}
    for entry, name in reversed(latest):
        if name not in incidents:
            [(body,)] = statements.run("SELECT body FROM sg_incidents WHERE id = ?", name)
            incidents[name] = from_text(body, Incident)
        insert(statements, _alert(entry, incidents[name]), entry.time)


def _findings(statements: Statements) -> Iterator[tuple[Entry, str]]:
    """Yield the findings of all timelines with the ids of their incidents."""
    incident, number = "", -1
    while True:
        rows = statements.run(
            "SELECT incident, number, body FROM sg_timeline WHERE incident > ? OR (incident = ? AND number > ?) "
            "ORDER BY incident, number LIMIT ?",
            incident,
            incident,
            number,
            _AT_ONCE,
        )
        for incident, number, body in rows:  # noqa: B007  (the next page begins after the last of them)
            entry = from_text(body, Entry)
            if entry.what == "finding":
                yield entry, incident
        if len(rows) < _AT_ONCE:
            return


def _alert(entry: Entry, incident: Incident) -> Alert:
    """Return a finding as an alert, as far as its incident tells."""
    return Alert(
        alert_id=entry.alert_id,
        rule_id=incident.rule_id,
        kind="",
        severity=incident.severity,
        session_id=incident.session_id,
        event_id=entry.event_id,
        index=None,
        time=entry.event_time,
        detail=entry.detail,
        policy_version=incident.policy_version,
        evidence=entry.evidence if isinstance(entry.evidence, dict) else {},
        labels={"tenant": incident.tenant} if incident.tenant else {},
    )


def _name_records(statements: Statements) -> None:
    """2 to 3: rows name the audit record with which they are pruned; those of before, the latest one."""
    number, now = head_of(statements).number, statements.time()
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
        if record := read_record(body).get("record"):
            statements.run("UPDATE sg_rulings SET record = ? WHERE attempt = ?", record, attempt)


STEPS: Final[Mapping[int, Step]] = {1: _list_findings, 2: _name_records}  # by the version that they begin with
