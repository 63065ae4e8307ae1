"""Notices: a pending review as an alert, and what a person has settled since an alert was sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Final

from stream_guard.history import incidents, review_rows
from stream_guard.history.database import Database
from stream_guard.history.review_rows import Review
from stream_guard.judge.model import Alert, Severity
from stream_guard.judge.spec import Policy
from stream_guard.redaction import mask_secrets, redact

REVIEW: Final = "stream_guard_review"
_PREFIX: Final = "review-"  # of the ids of notices


def review_notice(review: Review, policy: Policy) -> Alert:
    """Return the alert that asks for a person: which call waits, for which rules, until when."""
    severities = [rule.severity for rule in policy.rules if rule.id in review.rule_ids]
    until = "" if review.expires is None else f" until {datetime.fromtimestamp(review.expires, UTC):%Y-%m-%d %H:%M} UTC"
    return Alert(
        alert_id=f"{_PREFIX}{review.id}",
        rule_id=review.rule_ids[0] if review.rule_ids else REVIEW,
        kind=REVIEW,
        severity=max(severities, default=Severity.ERROR).word,
        session_id=review.session_id,
        event_id="",
        index=None,
        time=review.opened,
        detail=redact(f"a call of {review.tool} waits for a person{until}: {review.reason}"),
        policy_version=review.policy_version,
        evidence={"review": review.id, "tool": redact(review.tool), "rules": list(review.rule_ids)},
        agent=mask_secrets(review.agent),
        labels={"tenant": review.tenant} if review.tenant else {},
    )


def settled_in(database: Database) -> Callable[[Sequence[Alert]], Collection[str]]:
    """Return a function that tells which alerts a person has settled: the incident solved, the review answered."""

    def settled(alerts: Sequence[Alert]) -> Collection[str]:
        return {alert.alert_id for alert in alerts if _is_settled(database, alert)}

    return settled


def _is_settled(database: Database, alert: Alert) -> bool:
    if alert.kind == REVIEW:
        return review_rows.status_of(database, alert.alert_id.removeprefix(_PREFIX)) not in (None, "open")
    found = incidents.get(database, incidents.incident_id(alert.session_id, alert.rule_id))
    return found is not None and found.status == "solved"
