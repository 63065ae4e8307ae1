"""Follow-up: findings of the stream become incidents, and each new incident asks for a person."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from stream_guard.guard.reviews import Reviews
from stream_guard.history import alert_rows, incidents, tallies
from stream_guard.history.database import Statements, open_database
from stream_guard.history.retention import Pruner
from stream_guard.judge.model import Alert
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
