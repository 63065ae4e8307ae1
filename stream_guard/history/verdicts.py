"""Verdicts: what people say of findings. Each is an audit record, and together they are the score of a rule."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from stream_guard.history import alert_rows, chain, incidents
from stream_guard.history.alert_rows import column
from stream_guard.history.database import Database
from stream_guard.history.records import AnswerRefusedError, from_text, to_text

Word: TypeAlias = Literal["right", "wrong", "benign"]
WORDS: tuple[Word, ...] = ("right", "wrong", "benign")


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """``right``: it had to be found. ``wrong``: the rule is mistaken. ``benign``: it is so, and it is harmless."""

    alert_id: str
    rule_id: str
    session_id: str
    verdict: Word
    by: str
    time: float
    note: str = ""
    tenant: str = ""
    via: str = ""


class VerdictCounts(msgspec.Struct, frozen=True):
    """How often people said what of one rule."""

    right: int = 0
    wrong: int = 0
    benign: int = 0

    @property
    def total(self) -> int:
        """How many findings were looked at."""
        return self.right + self.wrong + self.benign

    @property
    def false_share(self) -> float | None:
        """The share of findings that nobody needed, wrong or benign; None where nobody has looked."""
        return (self.wrong + self.benign) / self.total if self.total else None


def give(
    database: Database,
    alert_id: str,
    word: Word,
    *,
    by: str,
    time: float,
    note: str = "",
    tenant: str = "",
    via: str = "",
) -> Verdict:
    """Write a verdict on a finding; a later one takes the place of an earlier one. AnswerRefusedError without one.

    The incident is solved with it, once all its findings have a verdict.
    """
    noted = alert_rows.get(database, alert_id, tenant)
    if noted is None:
        raise AnswerRefusedError(f"there is no alert {alert_id[:40]!r}", missing=True)
    alert = noted.alert
    verdict = Verdict(
        alert_id=alert.alert_id,
        rule_id=alert.rule_id,
        session_id=alert.session_id,
        verdict=word,
        by=by,
        time=time,
        note=note,
        tenant=alert.labels.get("tenant", ""),
        via=via,
    )
    with database.transaction(durable=True) as statements:
        statements.run(
            "INSERT INTO sg_verdicts VALUES (?, ?, ?, ?, ?) ON CONFLICT (alert) DO UPDATE "
            "SET verdict = excluded.verdict, body = excluded.body",
            column(alert.alert_id),
            column(alert.rule_id),
            column(verdict.tenant),
            word,
            to_text(verdict),
        )
        entry = {"alert": alert.alert_id, "rule_id": alert.rule_id, "verdict": word, "by": by, "via": via, "note": note}
        chain.append(statements, "verdict", time, {**entry, **({"tenant": verdict.tenant} if verdict.tenant else {})})
        incident = incidents.incident_id(alert.session_id, alert.rule_id)
        if incidents.is_answered(statements, incident):
            said = f"{word}: {note}" if note else word
            incidents.close(statements, incident, by=by, note=said, time=time, via=via)
    return verdict


def of_alert(database: Database, alert_id: str) -> Verdict | None:
    """Return the verdict on a finding, or None."""
    rows = database.read("SELECT body FROM sg_verdicts WHERE alert = ?", column(alert_id))
    return from_text(rows[0][0], Verdict) if rows else None


def of_rule(database: Database, rule_id: str, tenant: str = "") -> list[Verdict]:
    """Return the verdicts on a rule's findings."""
    rows = database.read("SELECT body FROM sg_verdicts WHERE rule = ? ORDER BY alert", column(rule_id))
    found = [from_text(body, Verdict) for (body,) in rows]
    return [verdict for verdict in found if tenant in ("", verdict.tenant)]


def counts(database: Database, tenant: str = "") -> dict[str, VerdictCounts]:
    """Return the counts by rule; a rule goes by the name that its column has."""
    where, values = ("WHERE tenant = ?", (column(tenant),)) if tenant else ("", ())
    found: dict[str, dict[str, int]] = {}
    for rule, word, count in database.read(
        f"SELECT rule, verdict, count(*) FROM sg_verdicts {where} GROUP BY rule, verdict",  # noqa: S608  # no value is in it
        *values,
    ):
        found.setdefault(rule, {})[word] = int(count)
    return {rule: VerdictCounts(**words) for rule, words in found.items()}
