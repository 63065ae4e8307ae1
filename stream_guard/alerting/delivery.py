"""Delivery: alerts reach every sink, or the caller learns why they did not.

Direct sinks, such as a file, have the alerts when ``deliver`` returns. For all others they are on disk then, in the
outbox, and a thread for each sink sends them: a slow or dead sink holds up nobody and loses nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from stream_guard.alerting.alerts import for_outside, make_alert
from stream_guard.alerting.outbox import AlertOutbox
from stream_guard.alerting.queues import SinkQueue
from stream_guard.errors import SinkError, StoreError
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Alert, Finding
from stream_guard.observability.steady_clock import steady_time
from stream_guard.ports import Sink

Result = TypeVar("Result")

_PAUSES: Final = (0.1, 0.4, 1.6)  # seconds between two attempts to deliver
_LOOK: Final = 0.2  # seconds between two looks whether the process ends, while a sink is waited for

_logger = logging.getLogger(__name__)


def alerts_of(findings: Iterable[Finding], policy_version: str) -> list[Alert]:
    """Return the alerts of findings, in their order. A rule in shadow mode raises none, nor what waits for a judge."""
    return [make_alert(one, policy_version) for one in findings if not one.shadow and one.inquiry is None]


class Delivery:
    """Sends alerts to sinks: retries what may succeed later, counts every outcome, flushes before a commit.

    One caller at a time, except for ``keep``: sinks are not made for several threads. A direct sink that has not come
    back after ``timeout`` seconds has failed, and is handed nothing more until it comes back.
    """

    def __init__(
        self,
        sinks: Mapping[str, Sink],
        counts: Counts,
        *,
        outbox: AlertOutbox | None = None,
        queues: Sequence[SinkQueue] = (),
        drain: float = 10.0,
        timeout: float = 300.0,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        self._sinks = sinks
        self._counts = counts
        self._outbox, self._queues = outbox, queues
        self._drain, self._timeout = drain, timeout
        self._stopped = stopped  # whether the process is to end: then no sink is waited for longer than that
        self._handed: dict[str, Future[Any]] = {}  # what each direct sink does, or did last
        self._clock = clock
        self._abandoned = threading.Event()
        self._keeping = threading.Lock()
        if outbox is not None:
            for name, number in outbox.sinks().items():
                if name not in {queue.name for queue in queues}:
                    _logger.warning("%d alerts wait in %s for %s, which is no sink now", number, outbox.path, name)
        for queue in queues:
            queue.start()

    def deliver(self, alerts: Sequence[Alert]) -> None:
        """Have every sink take the alerts, or have them safe; raise SinkError when that cannot be done."""
        self.keep(alerts)
        self.hand_over(alerts)

    def keep(self, alerts: Sequence[Alert]) -> None:
        """Have the alerts on disk for every sink that is not direct; raise SinkError when that cannot be done."""
        if not alerts or self._outbox is None:
            return
        shown = [for_outside(alert) for alert in alerts]
        with self._keeping:
            sorted_out = [(queue, queue.floods.sort(shown)) for queue in self._queues]
            rows = [(queue.name, alert, state) for queue, mine in sorted_out for alert, state in mine]
            try:
                self._outbox.put(rows, self._clock())
            except StoreError as error:
                raise SinkError(str(error), retryable=True) from error
        for queue, mine in sorted_out:
            queue.wake({state for _, state in mine})

    def hand_over(self, alerts: Sequence[Alert]) -> None:
        """Send the alerts to every direct sink; raise SinkError when one cannot take them."""
        if alerts:
            for name, sink in self._sinks.items():
                self._send(name, sink, alerts)

    def flush(self) -> dict[str, int]:
        """Make what was sent durable; return the position of each direct sink, for the checkpoint."""
        return {name: self._retry(name, sink.flush) for name, sink in self._sinks.items()}

    def abandon(self) -> None:
        """Let a failing sink fail without further retries, and one that hangs be left. Any thread may call this."""
        self._abandoned.set()

    def close(self) -> None:
        """Send what can be sent in the time that the end may take; the rest stays in the outbox."""
        for queue in self._queues:
            queue.end()
        until = time.monotonic() + self._drain
        for queue in self._queues:
            queue.join(until - time.monotonic())
        if self._outbox is not None:
            for name, number in self._outbox.sinks().items():
                _logger.warning(
                    "%d alerts for %s wait in %s for the next start: stream-guard outbox list",
                    *(number, name, self._outbox.path),
                )
            self._outbox.close()

    def _send(self, name: str, sink: Sink, alerts: Sequence[Alert]) -> None:
        try:
            self._retry(name, lambda: sink.send(alerts))
        except SinkError as error:
            self._counts.alerts[name, "failed" if error.retryable else "rejected"] += len(alerts)
            raise
        self._counts.alerts[name, "ok"] += len(alerts)
        self._counts.note_sent(name, (alert.time for alert in alerts), self._clock())

    def _retry(self, name: str, attempt: Callable[[], Result]) -> Result:
        for pause in _PAUSES:
            try:
                return self._wait_for(name, attempt)
            except SinkError as error:
                if not error.retryable or not self._handed[name].done() or self._abandoned.wait(pause):
                    raise
        return self._wait_for(name, attempt)

    def _wait_for(self, name: str, attempt: Callable[[], Result]) -> Result:
        """Have a sink do something, in a thread that may be left to itself; SinkError when it does not come back."""
        last = self._handed.get(name)
        if last is not None and not last.done():
            raise SinkError(f"{name}: the sink still hangs in what it was handed before", retryable=True)
        began = time.monotonic()
        end, work = began + self._timeout, begin_work(attempt, name)
        self._handed[name] = work
        while not wait([work], _LOOK).done:
            if self._abandoned.is_set() or self._stopped():
                end = min(end, time.monotonic() + self._drain)
            if time.monotonic() >= end:
                raise SinkError(
                    f"{name}: the sink has not come back for {time.monotonic() - began:.0f} s (delivery.timeout is "
                    f"{self._timeout:g} s); see what it waits for. What it was handed is not taken for delivered",
                    retryable=True,
                )
        return work.result()


def begin_work(work: Callable[[], Result], name: str) -> Future[Result]:
    """Begin something in a thread that does not keep the process from ending."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  # whoever waits for it raises it
            future.set_exception(error)

    threading.Thread(target=run, name=f"stream_guard-{name}", daemon=True).start()
    return future


def close_sink(name: str, sink: Sink, seconds: float) -> None:
    """Close a sink; one that hangs is left: what it has not taken is in the outbox, or not taken for delivered."""
    closing = begin_work(sink.close, name)
    if not wait([closing], seconds).done:
        _logger.warning("%s: the sink did not close in %g s and is left", name, seconds)
        return
    closing.result()
