"""Follow-up: findings of the stream become incidents, and each new incident asks for a person.

A pending review is an alert too; and what a person has settled since an alert was sent is asked for here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Final

from stream_guard.guard.reviews import Reviews
from stream_guard.history import alert_rows, incidents, review_rows, tallies
from stream_guard.history.database import Database, Statements, open_database
from stream_guard.history.retention import Pruner
from stream_guard.history.review_rows import Review
from stream_guard.judge.model import Alert, Severity
from stream_guard.judge.spec import Policy
from stream_guard.redaction import mask_secrets, redact
from stream_guard.settings import HistorySettings


def record_findings(statements: Statements, alerts: Sequence[Alert], now: float, reviews: Reviews | None) -> None:
    """Group findings into incidents; with ``reviews``, open a non-blocking ``anomaly_alert`` for each new one.

    A finding that is there already changes nothing, so repeats after a crash are harmless.
    """
    new = [alert for alert in alerts if alert_rows.insert(statements, alert, now)]
    told = [(alert.rule_id, alert.severity, alert.labels.get("tenant", ""), alert.time) for alert in new]
    tallies.count_findings(statements, told, now)
    for alert in alerts:
        incident, opened = incidents.record(statements, alert, now)
        if opened and reviews is not None:
            reviews.alert(statements, incident.id, alert)


class FollowUp:
    """Records the findings of a stream in a history; it never changes a decision of the gate.

    With ``limits`` the history is kept to them meanwhile.
    """

    def __init__(
        self,
        address: str,
        clock: Callable[[], float] = time.time,
        key: bytes = b"",
        limits: HistorySettings | None = None,
    ) -> None:
        self._database = open_database(address, key)
        self._pruner = None if limits is None else Pruner(open_database(address, key), limits)
        self._reviews = Reviews(self._database, clock=clock)
        self._clock = clock

    def record(self, alerts: Sequence[Alert]) -> None:
        """Keep the findings, all of them or none; StoreError when the history cannot be written."""
        with self._database.transaction() as statements:
            record_findings(statements, alerts, self._clock(), self._reviews)

    def close(self) -> None:
        """Close the history."""
        if self._pruner is not None:
            self._pruner.close()
        self._database.close()


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
