"""Inquiries: what judges were asked, what they said and what that cost. An answer on record never changes."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from stream_guard.history.alert_rows import column
from stream_guard.history.database import Database, Statements
from stream_guard.history.records import from_text, to_text
from stream_guard.judge.model import Alert, resolved

_MOST: Final = 10_000  # inquiries that are summed up

InquiryState: TypeAlias = Literal["open", "claimed", "answered", "failed", "refused"]


@resolved
class AskedInquiry(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a judge, with what came of it."""

    id: str
    rule_id: str
    model: str
    words: str
    excerpt: tuple[str, ...]
    opened: float
    tenant: str = ""
    calls_per_day: int = 0
    dollars_per_day: float | None = None
    state: InquiryState = "open"
    tries: int = 0
    violated: bool | None = None
    confidence: float = 0.0
    explanation: str = ""  # the judge's, or why there is no answer
    tokens: int = 0
    cost_usd: float = 0.0  # the worst case, where the endpoint does not say
    settled: float = 0.0  # when the answer came, or was given up


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """What people said of the alerts of a rule that a judge had decided on, and what they cost."""

    rule_id: str
    asked: int = 0
    broken: int = 0
    kept: int = 0
    unanswered: int = 0
    cost_usd: float = 0.0
    agreed: int = 0  # people called the alert right
    disagreed: int = 0  # people called it wrong or benign

    @property
    def cost_per_alert(self) -> float | None:
        """Dollars for one alert; None while there is none."""
        return self.cost_usd / self.broken if self.broken else None


def get(statements: Statements, name: str) -> AskedInquiry | None:
    """Return an inquiry, inside a transaction."""
    rows = statements.run("SELECT body FROM sg_inquiries WHERE id = ?", name)
    return from_text(rows[0][0], AskedInquiry) if rows else None


def find(database: Database, name: str) -> AskedInquiry | None:
    """Return an inquiry as it stands now."""
    rows = database.read("SELECT body FROM sg_inquiries WHERE id = ?", name)
    return from_text(rows[0][0], AskedInquiry) if rows else None


def put(statements: Statements, inquiry: AskedInquiry, until: float) -> None:
    """Write an inquiry; while it is open, nobody takes it before ``until``."""
    statements.run(
        "INSERT INTO sg_inquiries VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
        "SET state = excluded.state, until = excluded.until, body = excluded.body",
        inquiry.id,
        inquiry.state,
        column(inquiry.rule_id),
        column(inquiry.tenant),
        inquiry.opened,
        until,
        to_text(inquiry),
    )


def listing(database: Database, *, rule: str = "", tenant: str = "", limit: int = 100) -> list[AskedInquiry]:
    """Return inquiries, the latest first."""
    rows = database.read(
        "SELECT body FROM sg_inquiries WHERE (? = '' OR rule = ?) AND (? = '' OR tenant = ?) "
        "ORDER BY opened DESC, id LIMIT ?",
        *(column(rule), column(rule), column(tenant), column(tenant)),
        limit,
    )
    return [from_text(body, AskedInquiry) for (body,) in rows]


def of_alert(database: Database, alert: Alert) -> AskedInquiry | None:
    """Return the inquiry that an alert rests on, if it does."""
    name = inquiry_of(alert)
    return find(database, name) if name else None


def inquiry_of(alert: Alert) -> str:
    """Return the id of the inquiry that an alert rests on; empty where no judge was asked."""
    said = alert.evidence.get("judge")
    return str(said.get("inquiry", "")) if isinstance(said, dict) else ""


def agreements(database: Database, tenant: str = "") -> list[Agreement]:
    """Return, by rule, what was asked, what it cost, and whether people agree with the judge."""
    said = _said(database, tenant)
    found: dict[str, Agreement] = {}
    for inquiry in listing(database, tenant=tenant, limit=_MOST):
        before = found.get(inquiry.rule_id) or Agreement(rule_id=inquiry.rule_id)
        agreed, disagreed = said.get(inquiry.id, (0, 0))
        found[inquiry.rule_id] = msgspec.structs.replace(
            before,
            asked=before.asked + 1,
            broken=before.broken + (inquiry.violated is True),
            kept=before.kept + (inquiry.violated is False),
            unanswered=before.unanswered + (inquiry.state in ("failed", "refused")),
            cost_usd=before.cost_usd + inquiry.cost_usd,
            agreed=before.agreed + agreed,
            disagreed=before.disagreed + disagreed,
        )
    return sorted(found.values(), key=lambda one: one.rule_id)


def _said(database: Database, tenant: str) -> dict[str, tuple[int, int]]:
    """Return, by inquiry, how many people's verdicts say what the judge said, and how many something else."""
    found: dict[str, tuple[int, int]] = {}
    for body, verdict in database.read(
        "SELECT a.body, v.verdict FROM sg_verdicts v JOIN sg_alerts a ON a.id = v.alert "
        "WHERE v.rule IN (SELECT DISTINCT rule FROM sg_inquiries) AND (? = '' OR v.tenant = ?)",
        column(tenant),
        column(tenant),
    ):
        name, is_right = inquiry_of(from_text(body, Alert)), verdict == "right"
        agreed, disagreed = found.get(name, (0, 0))
        found[name] = (agreed + is_right, disagreed + (not is_right))
    return found
