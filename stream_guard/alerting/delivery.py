"""Delivery: alerts reach every sink, or the caller learns why they did not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from stream_guard.alerting.alerts import make_alert
from stream_guard.errors import SinkError
from stream_guard.model import Alert, Finding
from stream_guard.observability.counts import Counts
from stream_guard.ports import Sink

Result = TypeVar("Result")

_PAUSES: Final = (0.1, 0.4, 1.6)  # seconds between two attempts to deliver


def alerts_of(findings: Iterable[Finding], policy_version: str) -> list[Alert]:
    """Return the alerts of findings, in their order. A rule in shadow mode raises none."""
    return [make_alert(finding, policy_version) for finding in findings if not finding.shadow]


class Delivery:
    """Sends alerts to sinks: retries what may succeed later, counts every outcome, flushes before a commit.

    One caller at a time: sinks are not made for several threads.
    """

    def __init__(self, sinks: Mapping[str, Sink], counts: Counts) -> None:
        self._sinks = sinks
        self._counts = counts
        self._abandoned = threading.Event()

    def deliver(self, alerts: Sequence[Alert]) -> None:
        """Send the alerts to every sink; raise SinkError when one cannot take them."""
        if alerts:
            for name, sink in self._sinks.items():
                self._send(name, sink, alerts)

    def flush(self) -> dict[str, int]:
        """Make what was sent durable; return the position of each sink, for the checkpoint."""
        return {name: self._retry(sink.flush) for name, sink in self._sinks.items()}

    def abandon(self) -> None:
        """Let a failing sink fail without further retries. Another thread calls this when the process ends."""
        self._abandoned.set()

    def _send(self, name: str, sink: Sink, alerts: Sequence[Alert]) -> None:
        try:
            self._retry(lambda: sink.send(alerts))
        except SinkError as error:
            self._counts.alerts[name, "failed" if error.retryable else "rejected"] += len(alerts)
            raise
        self._counts.alerts[name, "ok"] += len(alerts)

    def _retry(self, attempt: Callable[[], Result]) -> Result:
        for pause in _PAUSES:
            try:
                return attempt()
            except SinkError as error:
                if not error.retryable or self._abandoned.wait(pause):
                    raise
        return attempt()
