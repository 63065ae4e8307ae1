"""The sink ``ocsf``: alerts as detection findings of the Open Cybersecurity Schema Framework, for SIEMs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import msgspec

from stream_guard import Alert, Json, LineLog, Sink, SinkError, own_version
from stream_guard_sinks.http import HttpReceiver
from stream_guard_sinks.messages import epoch, link_of, plain_alert, tenant_of, to_json

SCHEMA: Final = "1.3.0"
CLASS: Final = 2004  # Detection Finding
_CATEGORY: Final = 2  # Findings
_CREATE: Final = 1
_JSON: Final = {"content-type": "application/json"}
_SEVERITIES: Final = {"info": (1, "Informational"), "warning": (3, "Medium"), "error": (4, "High")}
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
        number, word = _SEVERITIES.get(alert.severity, _CRITICAL)
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
