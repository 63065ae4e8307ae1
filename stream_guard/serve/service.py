"""The gate behind a time budget: one thread judges, and whoever waits too long gets the stated answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Histogram

from stream_guard.alerting.delivery import Delivery
from stream_guard.errors import StreamGuardError
from stream_guard.guard.gate import Gate, Ruling
from stream_guard.model import Action, Alert, ToolCall
from stream_guard.settings import ApiSettings

Answer = TypeVar("Answer")

_logger = logging.getLogger(__name__)
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
FAIL_OPEN: Final = "stream_guard_fail_open"


class Service:
    """Judges for many callers at once; the order of judging is the order of asking."""

    def __init__(
        self,
        gate: Gate,
        settings: ApiSettings | None = None,
        *,
        registry: CollectorRegistry | None = None,
        delivery: Delivery | None = None,
    ) -> None:
        self.gate = gate
        self.settings = settings or ApiSettings()
        self.registry = registry or CollectorRegistry()
        self.failures: Counter[str] = Counter()  # by what the attempt got: open or closed
        self._delivery = delivery
        # One thread: the guard judges one attempt at a time anyway, and nobody overtakes anybody.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="stream_guard-gate")
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="stream_guard-alerts")
        self._seconds = Histogram(
            "stream_guard_gate_seconds", "Time from question to answer", buckets=_SECONDS, registry=self.registry
        )

    async def check(self, attempt: ToolCall) -> tuple[Ruling, bool]:
        """Return the ruling, and whether it was judged; without judgement it is what ``on_error`` says."""
        began = time.monotonic()
        work = self.run(self.gate.check, attempt)
        try:
            # Shielded: the attempt was made and counts, also when nobody waits for the answer any more.
            ruling = await asyncio.wait_for(asyncio.shield(work), self.settings.budget)
        except TimeoutError:
            work.add_done_callback(_look_at)
            return self._unjudged(attempt, f"no answer within {self.settings.budget:g} seconds"), False
        except StreamGuardError as error:
            return self._unjudged(attempt, str(error)), False
        finally:
            self._seconds.observe(time.monotonic() - began)
        self.alert(list(ruling.alerts))
        return ruling, True

    def run(self, work: Callable[..., Answer], *values: object) -> asyncio.Future[Answer]:
        """Do something in the thread that judges."""
        return asyncio.get_running_loop().run_in_executor(self._worker, work, *values)

    def alert(self, alerts: list[Alert]) -> None:
        """Deliver alerts without waiting for them."""
        if alerts and self._delivery is not None:
            self._sender.submit(self._deliver, alerts)

    def close(self) -> None:
        """Finish what was begun."""
        self._worker.shutdown()
        self._sender.shutdown()

    def _deliver(self, alerts: list[Alert]) -> None:
        try:
            if self._delivery is not None:
                self._delivery.deliver(alerts)
                self._delivery.flush()
        except StreamGuardError as error:
            _logger.error("%d alerts were not delivered: %s", len(alerts), error)  # noqa: TRY400  (it says why)

    def _unjudged(self, attempt: ToolCall, why: str) -> Ruling:
        self.failures[self.settings.on_error] += 1
        version = self.gate.policy.version
        if self.settings.on_error == "closed":
            _logger.warning("an attempt was blocked without being judged: %s", why)
            return Ruling(action=Action.BLOCK, reason=f"not judged: {why}", policy_version=version)
        _logger.error("an attempt was allowed without being judged: %s", why)
        alert = Alert(
            alert_id=f"{FAIL_OPEN}.{attempt.session_id}.{attempt.event_id or attempt.call_id}",
            rule_id=FAIL_OPEN,
            kind=FAIL_OPEN,
            severity="critical",
            session_id=attempt.session_id,
            event_id=attempt.event_id,
            index=None,
            time=attempt.time,
            detail=f"an attempt was allowed without being judged: {why}",
            policy_version=version,
        )
        self.alert([alert])
        return Ruling(action=Action.ALLOW, reason=f"not judged: {why}", policy_version=version, alerts=(alert,))


def _look_at(work: asyncio.Future[Ruling]) -> None:
    """Say what went wrong after the answer was given."""
    error = None if work.cancelled() else work.exception()
    if error is not None:
        _logger.error("an attempt could not be judged: %s", error)
