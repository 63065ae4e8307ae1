"""The sink ``otlp``: alerts as OpenTelemetry log records, for collectors and what stands behind them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

from stream_guard import Alert, Json, Sink, SinkError, span_place
from stream_guard_sinks.http import HttpReceiver
from stream_guard_sinks.messages import epoch, evidence_of, link_of, to_json

_JSON: Final = {"content-type": "application/json"}
_PATH: Final = "/v1/logs"
# The numbers of the log data model: INFO, WARN, ERROR, FATAL.
_SEVERITIES: Final = {"info": 9, "warning": 13, "error": 17, "critical": 21}


class OtlpSink(Sink):
    """Posts batches of log records to an endpoint of OTLP over HTTP, as JSON."""

    takes_all: ClassVar[bool] = True  # machines count for themselves

    def __init__(self, receiver: HttpReceiver, settings: Any, clock: Callable[[], float] = time.time) -> None:
        self._receiver = receiver
        self._settings = settings
        self._clock = clock

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        """Return the sink for the address of a collector, without ``/v1/logs``; nothing is sent yet."""
        del position  # a collector cannot be asked what it has
        return cls(HttpReceiver("otlp", target, settings, _PATH), settings)

    def send(self, alerts: Sequence[Alert]) -> None:
        """Post all alerts in one request."""
        if not alerts:
            return
        records = [self._record(alert) for alert in alerts]
        resource = {"attributes": _attributes({"service.name": "stream_guard"})}
        scope = {"scope": {"name": "stream_guard"}, "logRecords": records}
        answer = self._receiver.post(to_json({"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}), _JSON)
        if refused := _refused(answer):
            raise SinkError(f"otlp at {self._receiver.host} refused {refused} log records", retryable=False)

    def probe(self) -> str:
        """Post no log records at all: a collector takes that, from those who may post some."""
        self._receiver.post(to_json({"resourceLogs": []}), _JSON)
        return f"{self._receiver.host} takes log records"

    def close(self) -> None:
        """Close the connections."""
        self._receiver.close()

    def _record(self, alert: Alert) -> dict[str, Json]:
        now, place = self._clock(), span_place(alert.labels)
        attributes: dict[str, str] = {
            "stream_guard.alert.id": alert.alert_id,
            "stream_guard.judge.rule.id": alert.rule_id,
            "stream_guard.judge.rule.kind": alert.kind,
            "stream_guard.event.id": alert.event_id,
            "stream_guard.policy.version": alert.policy_version,
            "stream_guard.reason": alert.reason,
            "stream_guard.evidence": evidence_of(alert) if alert.evidence else "",
            "stream_guard.suppressed": str(alert.suppressed or ""),
            "session.id": alert.session_id,
            "gen_ai.conversation.id": alert.session_id,
            "gen_ai.agent.name": alert.agent,
            "url.full": link_of(alert, self._settings),
        }
        attributes |= {f"stream_guard.label.{name}": value for name, value in alert.labels.items()}
        return {
            "timeUnixNano": _nanoseconds(epoch(alert.time, now)),
            "observedTimeUnixNano": _nanoseconds(now),
            "severityNumber": _SEVERITIES.get(alert.severity, _SEVERITIES["critical"]),
            "severityText": alert.severity,
            "eventName": "stream_guard.alert",
            "body": {"stringValue": alert.detail},
            "attributes": _attributes(attributes),
            **({"traceId": place.trace_id, "spanId": place.span_id} if place is not None else {}),
        }


def _attributes(values: Mapping[str, str]) -> list[Json]:
    return [{"key": name, "value": {"stringValue": value}} for name, value in values.items() if value]


def _nanoseconds(seconds: float) -> str:
    return str(max(0, int(seconds * 1_000_000)) * 1000)  # as text: JSON has no such large numbers


def _refused(answer: bytes) -> int:
    """Return how many records were not taken, as a partial success says."""
    try:
        told = json.loads(answer or b"{}")
        return int(told.get("partialSuccess", {}).get("rejectedLogRecords", 0))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return 0
