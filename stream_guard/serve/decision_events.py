"""Decisions as OpenTelemetry log events, to a collector, in the trace of the call that they are about."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Lock
from typing import Any, Final
from urllib.parse import urlsplit

from stream_guard.errors import SettingsError
from stream_guard.guard.gate import Ruling
from stream_guard.http.traceparent import span_place
from stream_guard.judge.model import ToolCall
from stream_guard.redaction import mask_id, mask_secrets

EVENT: Final = "stream_guard.decision"
MOST: Final = 4096  # decisions that may wait for a collector
_AT_ONCE: Final = 256
_TIMEOUT: Final = 10.0
_SEVERITIES: Final = {
    "allow": 9,
    "modify": 9,
    "defer": 13,
    "pause": 13,
    "block": 17,
    "terminate_session": 21,
}  # INFO, WARN, ERROR, FATAL

_logger = logging.getLogger(__name__)


class DecisionEvents:
    """Sends decisions behind the answers: no caller waits for a collector. What finds no room is dropped."""

    def __init__(self, url: str, most: int = MOST) -> None:
        address = urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise SettingsError(f"api.decisions_to is {url!r}; write http://HOST:4318, the address of a collector")
        self._address, self._most = address, most
        self._lock = Lock()
        self._waiting: list[dict[str, Any]] = []
        self._is_failing = False
        self.dropped = 0
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="stream_guard-decisions")

    def add(self, attempt: ToolCall, ruling: Ruling, *, judged: bool) -> None:
        """Have a decision sent."""
        with self._lock:
            if len(self._waiting) >= self._most:
                self.dropped += 1
                return
            self._waiting.append(record_of(attempt, ruling, judged=judged))
            if len(self._waiting) > 1:
                return  # the sender comes for all of them
        self._sender.submit(self._send)

    def close(self) -> None:
        """Send what waits, if it is taken."""
        self._sender.shutdown()

    def _send(self) -> None:
        while True:
            with self._lock:
                records = self._waiting[:_AT_ONCE]
            if not records:
                return
            taken = self._post(records)
            with self._lock:
                del self._waiting[: len(records)]
                self.dropped += 0 if taken else len(records)
                if not self._waiting:
                    return

    def _post(self, records: Sequence[dict[str, Any]]) -> bool:
        resource = {"attributes": _attributes({"service.name": "stream_guard"})}
        scope = {"scope": {"name": "stream_guard"}, "logRecords": records}
        # In ASCII: a name may have half a surrogate pair.
        body = json.dumps({"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}).encode()
        kind = HTTPSConnection if self._address.scheme == "https" else HTTPConnection
        connection = kind(self._address.hostname or "", self._address.port, timeout=_TIMEOUT)
        why = ""
        try:
            connection.request("POST", f"{self._address.path}/v1/logs", body, {"Content-Type": "application/json"})
            status = connection.getresponse().status
            why = "" if status < 300 else f"it answers {status}"
        except (OSError, HTTPException) as error:
            why = str(error) or type(error).__name__
        finally:
            connection.close()
        if why and not self._is_failing:
            _logger.error("decisions do not reach the collector at %s and are dropped: %s", self._address.hostname, why)
        self._is_failing = bool(why)
        return not why


def record_of(attempt: ToolCall, ruling: Ruling, *, judged: bool) -> dict[str, Any]:
    """Return a decision as a log record: names of the conventions where there are some, our own beyond them."""
    word, place = ruling.action.word, span_place(attempt.labels)
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": mask_secrets(attempt.tool),
        "gen_ai.tool.call.id": mask_id(attempt.call_id),
        "gen_ai.conversation.id": attempt.session_id,
        "gen_ai.agent.name": mask_secrets(attempt.agent),
        "stream_guard.action": word,
        "stream_guard.reason": ruling.reason,
        "stream_guard.judge.rule.ids": ",".join(
            dict.fromkeys([*(alert.rule_id for alert in ruling.alerts), *ruling.modified_by])
        ),
        "stream_guard.policy.version": ruling.policy_version,
        "stream_guard.review.id": ruling.review.id if ruling.review is not None else "",
        "stream_guard.judged": "true" if judged and ruling.judged else "false",
    }
    now = str(int(time.time() * 1_000_000) * 1000)  # as text: JSON has no such large numbers
    return {
        "timeUnixNano": now,
        "observedTimeUnixNano": now,
        "severityNumber": _SEVERITIES[word],
        "severityText": word,
        "eventName": EVENT,
        "body": {"stringValue": f"{word} {mask_secrets(attempt.tool)}"},
        "attributes": _attributes(attributes),
        **({"traceId": place.trace_id, "spanId": place.span_id} if place is not None else {}),
    }


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": name, "value": {"stringValue": value}} for name, value in values.items() if value]
