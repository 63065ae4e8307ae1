"""The sink ``otlp``: alerts as OpenTelemetry log records, for collectors and what stands behind them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import msgspec

from stream_guard import Alert, Json, LineLog, Sink, SinkError, own_version, span_place
from stream_guard_sinks.http import HttpReceiver, epoch, evidence_of, link_of, plain_alert, tenant_of, to_json

# The sink ``ocsf``: alerts as detection findings of the Open Cybersecurity Schema Framework, for SIEMs.


SCHEMA: Final = "1.3.0"
CLASS: Final = 2004  # Detection Finding
_CATEGORY: Final = 2  # Findings
_CREATE: Final = 1
_OCSF_SEVERITIES: Final = {"info": (1, "Informational"), "warning": (3, "Medium"), "error": (4, "High")}
_CRITICAL: Final = (5, "Critical")


class _WrittenFinding(msgspec.Struct):
    """The part of a line that tells whether its alert was written before."""

    metadata: dict[str, Any] = {}


class OcsfSink(Sink):
    """Appends each alert to a file as one line of JSON, which an agent ships; or posts batches as JSON arrays."""

    takes_all: ClassVar[bool] = True  # machines count for themselves

    def __init__(self, writer: LineLog | HttpReceiver, settings: Any, clock: Callable[[], float] = time.time) -> None:
        self._writer = writer
        self._settings = settings
        self._clock = clock

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        """Return the sink for a path, or for an address that begins with http:// or https://."""
        if target.startswith(("http://", "https://")):
            return cls(HttpReceiver("ocsf", target, settings), settings)
        if not target:
            raise SinkError('the sink "ocsf" needs a file or an address; write ocsf:findings.jsonl', retryable=False)
        try:
            return cls(LineLog(Path(target), _identify, position=position), settings)
        except OSError as error:
            raise SinkError(
                f"{target}: cannot be written: {error.strerror}; choose another file", retryable=False
            ) from None

    def send(self, alerts: Sequence[Alert]) -> None:
        """Write or post all alerts."""
        found = [self._finding(alert) for alert in alerts]
        if not found:
            return
        if isinstance(self._writer, HttpReceiver):
            self._writer.post(to_json(found), _JSON)
            return
        try:
            self._writer.append([(str(one["metadata"]["uid"]), to_json(one)) for one in found])
        except OSError as error:
            raise SinkError(f"{self._writer.path}: findings cannot be written: {error}", retryable=True) from None

    def flush(self) -> int:
        """Sync the file to the disk, and return its length."""
        if isinstance(self._writer, HttpReceiver):
            return 0
        try:
            return self._writer.flush()
        except OSError as error:
            raise SinkError(f"{self._writer.path}: findings cannot be written: {error}", retryable=True) from None

    def probe(self) -> str:
        """Ask whether somebody is there; a file was opened for writing."""
        return self._writer.probe() if isinstance(self._writer, HttpReceiver) else "the file can be written"

    def close(self) -> None:
        """Close the file or the connections."""
        self._writer.close()

    def _finding(self, alert: Alert) -> dict[str, Json]:
        number, word = _OCSF_SEVERITIES.get(alert.severity, _CRITICAL)
        milliseconds = int(epoch(alert.time, self._clock()) * 1000)
        about: dict[str, Json] = {
            "uid": alert.alert_id,
            "title": alert.rule_id,
            "desc": alert.detail,
            "types": [alert.kind],
            "created_time": milliseconds,
            "analytic": {"uid": alert.rule_id, "name": alert.rule_id, "type_id": 1, "type": "Rule"},
        }
        if link := link_of(alert, self._settings):
            about["src_url"] = link
        metadata: dict[str, Json] = {
            "version": SCHEMA,
            "uid": alert.alert_id,
            "correlation_uid": alert.session_id,
            "product": {"name": "stream_guard", "vendor_name": "stream_guard", "version": own_version()},
        }
        if tenant := tenant_of(alert):
            metadata["tenant_uid"] = tenant
        return {
            "activity_id": _CREATE,
            "activity_name": "Create",
            "category_uid": _CATEGORY,
            "category_name": "Findings",
            "class_uid": CLASS,
            "class_name": "Detection Finding",
            "type_uid": CLASS * 100 + _CREATE,
            "time": milliseconds,
            "severity_id": number,
            "severity": word,
            "status_id": 1,
            "status": "New",
            "is_alert": True,
            "message": alert.detail,
            "finding_info": about,
            "metadata": metadata,
            "evidences": [{"data": plain_alert(alert).get("evidence", {})}],
            "unmapped": {"stream_guard": plain_alert(alert)},
        }


def _identify(line: bytes) -> str:
    try:
        return str(msgspec.json.decode(line, type=_WrittenFinding).metadata.get("uid", ""))
    except (ValueError, RecursionError):
        return ""


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
