"""Alerts as rows of the history, in the order in which they were noted; listed page by page, however many there are."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from stream_guard.history.database import Database, Row, Statements, Value
from stream_guard.history.records import digest_of, from_text, to_text
from stream_guard.judge.model import Alert, Severity, resolved

_SEVERITIES: Final = {severity.word: int(severity) for severity in Severity}
_WINDOW: Final = 20_000  # rows that one statement looks at: no statement takes long
_TEXT_WINDOW: Final = 4_000  # the same where the rows themselves are read
_BUDGET: Final = 0.1  # seconds that one page may look back
_LONGEST: Final = 200  # characters of a name in a column
_MARKS: Final = 50_000  # alerts of one session that are told apart
_TOGETHER: Final = 500  # numbers in one statement
_TENANT_AND_RULE: Final = {"tenant = ?", "rule = ?"}


class NotedAlert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert of the history, with its number and when it was noted."""

    number: int
    noted: float
    alert: Alert


@resolved
class AlertMark(msgspec.Struct, frozen=True):
    """Which alert of a session it is, and at which event, without the rest of it."""

    alert_id: str
    rule_id: str
    severity: str
    event_id: str
    number: int = 0


class AlertFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which alerts are listed; what is empty does not matter."""

    severity: str = ""  # this one and worse
    rule: str = ""
    agent: str = ""
    session: str = ""
    tenant: str = ""
    text: str = ""  # in the detail or the reason, whatever its case

    def holds(self, noted: NotedAlert) -> bool:
        """Whether the alert is one of those."""
        alert, words = noted.alert, self.text.casefold()
        return (
            _SEVERITIES.get(alert.severity, 0) >= _SEVERITIES.get(self.severity, 0)
            and self.rule in ("", alert.rule_id)
            and self.agent in ("", alert.agent)
            and self.session in ("", alert.session_id)
            and self.tenant in ("", alert.labels.get("tenant", ""))
            and (not words or words in f"{alert.detail}\n{alert.reason}".casefold())
        )


class AlertPage(msgspec.Struct, frozen=True):
    """Some alerts, the latest first; ``before`` is where the next page begins, None when there is none."""

    alerts: tuple[NotedAlert, ...]
    before: int | None


_MARK: Final = msgspec.json.Decoder(AlertMark)


def column(name: str) -> str:
    """Return a name as every database can store it: ASCII, and not too long."""
    text = json.dumps(name)[1:-1]
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 17]}~{digest_of(name)[:16]}"


def session_key(session_id: str) -> str:
    """Return what stands for a session in columns and addresses."""
    return digest_of(session_id)[:32]


def key_of(name: str) -> str:
    """Return the key of a session by its name in an address: its id, or ``~`` and its key."""
    given = name[1:] if name[:1] == "~" else ""
    return given if given and given.isascii() else session_key(name)


def insert(statements: Statements, alert: Alert, noted: float) -> bool:
    """Write an alert down and return True; one that is there already changes nothing."""
    if statements.run("SELECT 1 FROM sg_alerts WHERE id = ?", column(alert.alert_id)):
        return False
    statements.run(
        "INSERT INTO sg_alerts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        _newest(statements.run) + 1,
        column(alert.alert_id),
        session_key(alert.session_id),
        column(alert.rule_id),
        _SEVERITIES.get(alert.severity, 0),
        column(alert.agent),
        column(alert.labels.get("tenant", "")),
        noted,
        to_text(alert),
    )
    return True


def newest(database: Database) -> int:
    """Return the number of the latest alert; 0 when there is none."""
    return _newest(database.read)


def _newest(run: Callable[..., list[Row]]) -> int:
    [(listed, pruned)] = run("SELECT (SELECT max(number) FROM sg_alerts), (SELECT max(number) FROM sg_pruned)")
    return max(int(listed or 0), int(pruned or 0))


def remove(statements: Statements, ids: Sequence[str]) -> None:
    """Take alerts out, with what people said of them; no later alert gets one of their numbers."""
    for begin in range(0, len(ids), _TOGETHER):
        names = [column(name) for name in ids[begin : begin + _TOGETHER]]
        marks = ", ".join("?" * len(names))
        [(latest,)] = statements.run(f"SELECT max(number) FROM sg_alerts WHERE id IN ({marks})", *names)  # noqa: S608  # no value is in it
        if latest is not None and latest == _newest(statements.run):
            statements.run("DELETE FROM sg_pruned")
            statements.run("INSERT INTO sg_pruned VALUES (?)", latest)
        statements.run(f"DELETE FROM sg_alerts WHERE id IN ({marks})", *names)  # noqa: S608  # no value is in it
        statements.run(f"DELETE FROM sg_verdicts WHERE alert IN ({marks})", *names)  # noqa: S608  # no value is in it


def get(database: Database, alert_id: str, tenant: str = "") -> NotedAlert | None:
    """Return an alert by its id; with a tenant, only one of that tenant."""
    rows = database.read("SELECT number, noted, body FROM sg_alerts WHERE id = ?", column(alert_id))
    found = _noted(rows[0]) if rows else None
    return found if found is not None and tenant in ("", found.alert.labels.get("tenant", "")) else None


def page(database: Database, wanted: AlertFilter, before: int | None = None, limit: int = 50) -> AlertPage:
    """Return the next alerts that are wanted, the latest first.

    It looks back for a tenth of a second at most. Where that was not enough, ``before`` says where to go on, and the
    page may have few alerts, or none.
    """
    where, values = _columns(wanted)
    # These have an index that ends in the number, so their rows come in order. Everything else is looked through.
    tests = [*where, *(["severity"] if wanted.severity else [])]
    begins_at_once = (len(tests) <= 1 or set(tests) == _TENANT_AND_RULE) and not wanted.text
    end = newest(database) + 1 if before is None else before
    found: list[NotedAlert] = []
    deadline = time.monotonic() + _BUDGET
    while end > 1 and len(found) <= limit:
        begin = 1 if begins_at_once else max(1, end - (_TEXT_WINDOW if wanted.text else _WINDOW))
        rows = _rows(database, _levels(wanted), ("number >= ?", "number < ?", *where), [begin, end, *values], limit)
        found += [noted for row in rows if wanted.holds(noted := _noted(row))]
        end = int(rows[-1][0]) if len(rows) > limit else begin
        if time.monotonic() > deadline:
            break
    if len(found) > limit:
        return AlertPage(tuple(found[:limit]), found[limit - 1].number)
    return AlertPage(tuple(found), end if end > 1 else None)


def _rows(
    database: Database, levels: Sequence[int | None], where: Sequence[str], values: Sequence[Value], limit: int
) -> list[Row]:
    """Return one row more than the limit, where there are as many; each level of severity by its own index."""
    rows: list[Row] = []
    for level in levels:
        tests, bound = (where, values) if level is None else (("severity = ?", *where), (level, *values))
        rows += database.read(
            f"SELECT number, noted, body FROM sg_alerts WHERE {' AND '.join(tests)} ORDER BY number DESC LIMIT ?",  # noqa: S608  # no value is in it
            *bound,
            limit + 1,
        )
    return sorted(rows, key=lambda row: -int(row[0]))[: limit + 1]


def since(database: Database, number: int, limit: int = 500) -> list[NotedAlert]:
    """Return the alerts after a number, the earliest first."""
    rows = database.read(
        "SELECT number, noted, body FROM sg_alerts WHERE number > ? ORDER BY number LIMIT ?", number, limit
    )
    return [_noted(row) for row in rows]


def marks_of_session(database: Database, name: str, tenant: str = "", after: int = 0) -> list[AlertMark]:
    """Return which alerts one session has after a number, the earliest first; with a tenant, only that tenant's."""
    where, values = ("AND tenant = ?", [column(tenant)]) if tenant else ("", [])
    rows = database.read(
        f"SELECT number, body FROM sg_alerts WHERE session = ? AND number > ? {where} ORDER BY number LIMIT ?",  # noqa: S608  # no value is in it
        key_of(name),
        after,
        *values,
        _MARKS,
    )
    return [msgspec.structs.replace(_MARK.decode(body), number=int(number)) for number, body in rows]


def of_numbers(database: Database, numbers: Sequence[int]) -> list[NotedAlert]:
    """Return the alerts of some numbers, the earliest first."""
    found: list[NotedAlert] = []
    for begin in range(0, len(numbers), _TOGETHER):
        asked = sorted(numbers)[begin : begin + _TOGETHER]
        sql = (
            f"SELECT number, noted, body FROM sg_alerts WHERE number IN ({', '.join('?' * len(asked))}) ORDER BY number"  # noqa: S608  # no value is in it
        )
        found += map(_noted, database.read(sql, *asked))
    return found


def worst_of_sessions(database: Database, session_ids: Sequence[str], most: int) -> list[tuple[int, str]]:
    """Return of each session how many alerts it has, counted up to a limit, and the worst severity among those."""
    # In one statement: other threads have their turn at each, and a list of sessions waits for all of them.
    latest = "(SELECT severity FROM sg_alerts WHERE session = ? LIMIT ?) AS some"
    each = [f"SELECT {place}, count(*), max(severity) FROM {latest}" for place in range(len(session_ids))]  # noqa: S608  # no value is in it
    values = [value for name in session_ids for value in (session_key(name), most)]
    rows = database.read(" UNION ALL ".join(each), *values) if each else []
    by_place = {
        int(place): (int(count), "" if worst is None else Severity(int(worst)).word) for place, count, worst in rows
    }
    return [by_place[place] for place in range(len(session_ids))]


def last_of_rules(database: Database, rules: Sequence[str]) -> dict[str, float]:
    """Return when each rule was last noted; rules that never were are left out."""
    found: dict[str, float] = {}
    for rule in rules:
        rows = database.read("SELECT noted FROM sg_alerts WHERE rule = ? ORDER BY number DESC LIMIT 1", column(rule))
        if rows:
            found[rule] = float(rows[0][0])
    return found


def _levels(wanted: AlertFilter) -> list[int | None]:
    """Return the severities to ask for one by one; None stands for all of them."""
    least = _SEVERITIES.get(wanted.severity, 0)
    return [None] if least == 0 else list(range(least, len(_SEVERITIES)))


def _columns(wanted: AlertFilter) -> tuple[list[str], list[Value]]:
    chosen: dict[str, Value] = {}
    for name, value in (("rule", wanted.rule), ("agent", wanted.agent), ("tenant", wanted.tenant)):
        if value:
            chosen[f"{name} = ?"] = column(value)
    if wanted.text.isascii() and json.dumps(wanted.text)[1:-1] == wanted.text != "":
        # Rows without the words need not be read; those with them are looked at again.
        chosen["lower(body) LIKE ? ESCAPE '!'"] = f"%{_literal(wanted.text.lower())}%"
    if wanted.session:
        chosen["session = ?"] = session_key(wanted.session)
    return list(chosen), list(chosen.values())


def _literal(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _noted(row: Row) -> NotedAlert:
    return NotedAlert(number=int(row[0]), noted=float(row[1]), alert=from_text(row[2], Alert))
