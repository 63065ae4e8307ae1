"""Incidents: everything that one rule found in one session, and whether it is solved.

One finding is one thing to do: what answers it closes the incident, and with the incident what else asks about it.
"""

from __future__ import annotations

from time import monotonic as time_now
from typing import Any, Literal, TypeAlias

import msgspec

from stream_guard.history import alert_rows, chain, review_rows
from stream_guard.history.database import Database, Statements, Value
from stream_guard.history.records import AnswerRefusedError, digest_of, from_text, to_text
from stream_guard.judge.model import Alert, Json, resolved

Status: TypeAlias = Literal["unresolved", "solved"]
_ID_LENGTH = 16
_PAGE = 500
_BUDGET = 0.1  # seconds that one page may look back
_END = 1e18  # later than any time
MOST_FINDINGS = 10_000  # of one incident that are kept, beside its first
_TRIMMED = 100  # that one more finding may push out: there are more where an earlier version kept all


@resolved
class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one session and one rule: unresolved until a person calls it solved."""

    id: str
    session_id: str
    rule_id: str
    severity: str
    status: Status
    opened: float
    policy_version: str
    findings: int = 0
    solved_by: str = ""
    note: str = ""
    tenant: str = ""
    via: str = ""  # how it is known who solved it


@resolved
class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an incident's timeline."""

    number: int
    time: float  # when it was written down
    what: Literal["finding", "solved", "reopened"]
    detail: str
    alert_id: str = ""
    event_id: str = ""
    event_time: float | None = None
    evidence: Json = None


def incident_id(session_id: str, rule_id: str) -> str:
    """Return the id that all findings of this session and rule share."""
    return digest_of([session_id, rule_id])[:_ID_LENGTH]


def record(statements: Statements, alert: Alert, time: float) -> tuple[Incident, bool]:
    """Add a finding to its incident. Return the incident, and whether the finding opened or reopened it.

    A finding that is already recorded changes nothing: replays and retries have the same alert id.
    """
    known = _find(statements.run, incident_id(alert.session_id, alert.rule_id))
    if known is not None and statements.run(
        "SELECT 1 FROM sg_timeline WHERE incident = ? AND entry = ?", known.id, alert.alert_id
    ):
        return known, False
    opened = known is None or known.status == "solved"
    if known is None:
        known = _open(statements, alert, time)
    elif opened:
        _write(statements, known.id, time, "reopened", "found again after it had been solved")
    number = _write(statements, known.id, time, "finding", alert.detail, alert)
    known = msgspec.structs.replace(known, status="unresolved", findings=known.findings + 1)
    _save(statements, known)
    if number > MOST_FINDINGS + 1:
        remove_findings(statements, known.id, first=2, last=number - MOST_FINDINGS, most=_TRIMMED)
    if opened:
        chain.append(
            statements,
            "incident_opened",
            time,
            {"incident": known.id, "session_id": known.session_id, "rule_id": known.rule_id, "entry": number},
        )
    return known, opened


def solve(
    database: Database, name: str, *, by: str, note: str, time: float, tenant: str = "", via: str = ""
) -> Incident:
    """Mark an incident as solved; AnswerRefusedError when there is none of that id or it is solved already.

    Open reviews that only ask whether it has been seen are acknowledged with it.
    """
    with database.transaction(durable=True) as statements:
        known = _find(statements.run, name)
        if known is None or tenant not in ("", known.tenant):
            text = f"there is no incident {name[:40]!r}; list them with: stream-guard incidents list"
            raise AnswerRefusedError(text, missing=True)
        if known.status == "solved":
            raise AnswerRefusedError(f"incident {known.id} is solved already, by {known.solved_by}")
        return _solve(statements, known, by=by, note=note, time=time, via=via)


def close(statements: Statements, name: str, *, by: str, note: str, time: float, via: str = "") -> None:
    """Solve an incident that another answer has settled; nothing happens where it is none, or is solved already."""
    known = _find(statements.run, name)
    if known is not None and known.status != "solved":
        _solve(statements, known, by=by, note=note, time=time, via=via)


def is_answered(statements: Statements, name: str) -> bool:
    """Whether every finding of an incident has a verdict."""
    rows = statements.run(
        "SELECT 1 FROM sg_timeline LEFT JOIN sg_verdicts ON sg_verdicts.alert = sg_timeline.entry WHERE incident = ? "
        "AND entry NOT LIKE ? AND entry NOT LIKE ? AND sg_verdicts.alert IS NULL LIMIT 1",
        name,
        "solved.%",
        "reopened.%",
    )
    return not rows


def _solve(statements: Statements, known: Incident, *, by: str, note: str, time: float, via: str) -> Incident:
    solved = msgspec.structs.replace(known, status="solved", solved_by=by, note=note, via=via)
    _write(statements, solved.id, time, "solved", f"{by}: {note}" if note else by)
    _save(statements, solved)
    chain.append(statements, "incident_solved", time, {"incident": solved.id, "by": by, "via": via, "note": note})
    for asked in review_rows.open_about(statements, solved.id):
        seen = msgspec.structs.replace(asked, status="acknowledged", by=by, note=note, via=via, decided=time)
        review_rows.update(statements, seen, time)
    return solved


def remove_findings(statements: Statements, name: str, *, first: int, last: int, most: int) -> int:
    """Take the earliest entries between two numbers out of a timeline, with their alerts; return how many."""
    rows = statements.run(
        "SELECT number, entry FROM sg_timeline WHERE incident = ? AND number >= ? AND number <= ? "
        "ORDER BY number LIMIT ?",
        name,
        first,
        last,
        most,
    )
    if rows:
        alert_rows.remove(statements, [entry for _, entry in rows])
        statements.run(
            "DELETE FROM sg_timeline WHERE incident = ? AND number >= ? AND number <= ?", name, first, rows[-1][0]
        )
    return len(rows)


def is_over(statements: Statements, name: str, time: float) -> bool:
    """Whether an incident is solved, and nothing happened in it after this time."""
    known = _find(statements.run, name)
    rows = statements.run("SELECT body FROM sg_timeline WHERE incident = ? ORDER BY number DESC LIMIT 1", name)
    return known is not None and known.status == "solved" and all(from_text(row[0], Entry).time <= time for row in rows)


def get(database: Database, name: str, tenant: str = "") -> Incident | None:
    """Return an incident, or None; with a tenant, only one of that tenant."""
    found = _find(database.read, name)
    return found if found is not None and tenant in ("", found.tenant) else None


def listing(database: Database, status: Status | None = None, limit: int = 100, tenant: str = "") -> list[Incident]:
    """Return incidents, the latest first; with a tenant, only that tenant's."""
    where, values = ("WHERE status = ?", (status,)) if status else ("", ())
    sql = f"SELECT body FROM sg_incidents {where} ORDER BY opened DESC, id LIMIT ? OFFSET ?"  # noqa: S608  # no value is in the text
    found: list[Incident] = []
    for start in range(0, 2**62, _PAGE):
        page = [from_text(body, Incident) for (body,) in database.read(sql, *values, _PAGE, start)]
        found += [incident for incident in page if tenant in ("", incident.tenant)]
        if len(found) >= limit or len(page) < _PAGE:
            break
    return found[:limit]


def page(
    database: Database,
    status: Status | None,
    before: tuple[float, str] | None = None,
    limit: int = 50,
    tenant: str = "",
) -> tuple[list[Incident], tuple[float, str] | None]:
    """Return some incidents, the latest first, and where the next page begins; it looks back for a limited time."""
    deadline, found = time_now() + _BUDGET, list[Incident]()
    where, values = ("AND status = ?", [status]) if status else ("", [])
    sql = (
        f"SELECT body FROM sg_incidents WHERE opened <= ? AND NOT (opened = ? AND id >= ?) {where} "  # noqa: S608  # no value is in it
        "ORDER BY opened DESC, id DESC LIMIT ?"
    )
    place = before or (_END, "~")
    while True:
        read = [from_text(body, Incident) for (body,) in database.read(sql, place[0], *place, *values, limit + 1)]
        mine = [incident for incident in read if tenant in ("", incident.tenant)]
        found += mine
        if len(found) > limit:
            last = found[limit - 1]
            return found[:limit], (last.opened, last.id)
        if len(read) <= limit:
            return found, None
        place = (read[-1].opened, read[-1].id)
        if time_now() > deadline:
            return found, place


def timeline(database: Database, name: str, limit: int = 1_000_000) -> list[Entry]:
    """Return what happened in an incident, in order; the latest of it, where it is more than the limit."""
    rows = database.read("SELECT body FROM sg_timeline WHERE incident = ? ORDER BY number DESC LIMIT ?", name, limit)[
        ::-1
    ]
    return [from_text(body, Entry) for (body,) in rows]


def _open(statements: Statements, alert: Alert, time: float) -> Incident:
    found = Incident(
        id=incident_id(alert.session_id, alert.rule_id),
        session_id=alert.session_id,
        rule_id=alert.rule_id,
        severity=alert.severity,
        status="unresolved",
        opened=time,
        policy_version=alert.policy_version,
        tenant=alert.labels.get("tenant", ""),
    )
    statements.run("INSERT INTO sg_incidents VALUES (?, ?, ?, ?)", found.id, found.status, time, to_text(found))
    return found


def _find(run: Any, name: str) -> Incident | None:
    values: tuple[Value, ...] = (name,)
    rows = run("SELECT body FROM sg_incidents WHERE id = ?", *values) if name.isalnum() and name.isascii() else []
    return from_text(rows[0][0], Incident) if rows else None


def _save(statements: Statements, known: Incident) -> None:
    statements.run("UPDATE sg_incidents SET status = ?, body = ? WHERE id = ?", known.status, to_text(known), known.id)


def _write(
    statements: Statements,
    incident: str,
    time: float,
    what: Literal["finding", "solved", "reopened"],
    detail: str,
    alert: Alert | None = None,
) -> int:
    [(number,)] = statements.run("SELECT COALESCE(max(number), 0) + 1 FROM sg_timeline WHERE incident = ?", incident)
    entry = Entry(number=number, time=time, what=what, detail=detail)
    if alert is not None:
        entry = msgspec.structs.replace(
            entry,
            alert_id=alert.alert_id,
            event_id=alert.event_id,
            event_time=alert.time,
            evidence=dict(alert.evidence),
        )
    key = alert.alert_id if alert is not None else f"{what}.{number}"
    statements.run("INSERT INTO sg_timeline VALUES (?, ?, ?, ?)", incident, number, key, to_text(entry))
    return int(number)
