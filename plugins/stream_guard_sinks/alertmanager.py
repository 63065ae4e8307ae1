"""The sink ``alertmanager``: alerts for Prometheus' Alertmanager, which groups, silences and routes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from stream_guard import Alert, Json, Sink
from stream_guard_sinks.http import REVIEW, HttpReceiver, evidence_of, link_of, tenant_of, to_json, written_time

_JSON: Final = {"content-type": "application/json"}
_PATH: Final = "/api/v2/alerts"


class AlertmanagerSink(Sink):
    """Posts alerts to the API of version 2.

    The labels are the rule, its severity and kind, the session and the tenant: all that one rule finds in one session
    is one alert there, however often it is found. It lasts until somebody solves the incident, or until nothing more
    was found for ``resolve_after`` seconds; Alertmanager is reminded of it every ``resend`` seconds, because it forgets
    alerts when it is restarted.
    """

    def __init__(self, receiver: HttpReceiver, settings: Any, clock: Callable[[], float] = time.time) -> None:
        self._receiver = receiver
        self._settings = settings
        self._clock = clock
        self.resend = float(getattr(settings, "resend", 60.0))
        self.resolve_after = float(getattr(settings, "resolve_after", 3600.0))

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        """Return the sink for the address of an Alertmanager; nothing is sent yet."""
        del position  # what is there already is recognised by its labels
        return cls(HttpReceiver("alertmanager", target, settings, _PATH), settings)

    def send(self, alerts: Sequence[Alert]) -> None:
        """Have Alertmanager show the alerts."""
        self._post(alerts, self._clock() + self.resolve_after)

    def resolve(self, alerts: Sequence[Alert]) -> None:
        """Have Alertmanager call the alerts resolved."""
        self._post(alerts, self._clock())

    def probe(self) -> str:
        """Post no alerts at all: Alertmanager takes that, from those who may post some."""
        self._receiver.post(b"[]", _JSON)
        return f"{self._receiver.host} takes alerts"

    def close(self) -> None:
        """Close the connections."""
        self._receiver.close()

    def _post(self, alerts: Sequence[Alert], until: float) -> None:
        if alerts:
            self._receiver.post(to_json([self._entry(alert, until) for alert in alerts]), _JSON)

    def _entry(self, alert: Alert, until: float) -> dict[str, Json]:
        link = link_of(alert, self._settings)
        # Before the end: Alertmanager refuses an alert that ends before it starts.
        start = min(alert.time, until, self._clock()) if alert.time is not None else None
        entry = {
            "labels": _labels(alert),
            "annotations": _annotations(alert),
            "startsAt": written_time(start),
            "endsAt": written_time(until),
            "generatorURL": link,
        }
        return {name: value for name, value in entry.items() if value}


def _labels(alert: Alert) -> dict[str, str]:
    labels = {
        "alertname": alert.rule_id,
        "severity": alert.severity,
        "kind": alert.kind,
        "session": alert.session_id,
        "tenant": tenant_of(alert),
        "source": "stream_guard",
    }
    if not alert.session_id or alert.kind == REVIEW:
        labels["alert"] = alert.alert_id  # each review, and each summary, is one of its own
    return {name: value for name, value in labels.items() if value}


def _annotations(alert: Alert) -> dict[str, str]:
    annotations = {
        "summary": alert.detail,
        "description": alert.reason,
        "alert_id": alert.alert_id,
        "event_id": alert.event_id,
        "agent": alert.agent,
        "policy_version": alert.policy_version,
        "evidence": evidence_of(alert) if alert.evidence else "",
        "suppressed": str(alert.suppressed or ""),
    }
    return {name: value for name, value in annotations.items() if value}
