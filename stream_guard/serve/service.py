"""The gate with a time budget: one thread judges; a caller that waits too long gets the answer of ``on_error``."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Event, Lock
from typing import Final, TypeVar

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from stream_guard.alerting.delivery import Delivery
from stream_guard.errors import StreamGuardError
from stream_guard.guard.gate import Gate, Ruling
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Action, Alert, ToolCall
from stream_guard.judge.names import ToolNames
from stream_guard.judge.spec import Policy
from stream_guard.redaction import mask_id
from stream_guard.serve.admission import REFUSALS
from stream_guard.settings import ApiSettings

Answer = TypeVar("Answer")

_logger = logging.getLogger(__name__)
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
EVENTS_AT_ONCE: Final = 16  # recorded events that a check may have to wait for
FAIL_OPEN: Final = "stream_guard_fail_open"


class Service:
    """Judges the attempts of many callers, in the order in which they ask."""

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
        self.failures: Counter[str] = Counter()  # attempts without judgement, by their answer: open or closed
        self.refused: Counter[str] = Counter()  # requests that were not taken in, by the reason
        self._delivery = delivery
        gate.outgoing = self.alert
        self.obstacles: set[str] = set()  # what does not go on just now; nothing of it is lost
        self._stopping: tuple[StoppingRules, ...] = (StoppingRules(gate.policy),)
        # Called with an attempt, its ruling, and whether it was judged; and with a policy before its first attempt.
        self.decided: Callable[..., None] = lambda *_, **__: None
        self.adopted: Callable[[Policy], None] = lambda _: None
        # One thread: the guard judges one attempt at a time anyway, and their order stays.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="stream_guard-gate")
        self._sender = ThreadPoolExecutor(1, thread_name_prefix="stream_guard-alerts")
        self._unjudged_allows = UnjudgedAllows(gate)
        self._seconds = Histogram(
            "stream_guard_gate_seconds", "Time from question to answer", buckets=_SECONDS, registry=self.registry
        )

    async def check(
        self, attempt: ToolCall, *, may_modify: bool = False, may_defer: bool = False
    ) -> tuple[Ruling, bool]:
        """Return the ruling, and whether it was judged, and have others told of it.

        ``may_defer``: the caller can ask again, so that what would be blocked for want of judgement is deferred.
        """
        ruling, judged = await self._check(attempt, may_modify=may_modify)
        if may_defer and not judged and ruling.action is Action.BLOCK:
            ruling = replace(ruling, action=Action.DEFER)
        self.decided(attempt, ruling, judged=judged)
        return ruling, judged

    async def _check(self, attempt: ToolCall, *, may_modify: bool) -> tuple[Ruling, bool]:
        """Return the ruling, and whether it was judged; without judgement, ``on_error`` decides.

        A refusal counts even when it comes late. An allow that comes late is none: whether it was in time must not
        depend on a race.
        """
        began, budget = time.monotonic(), self.settings.budget
        work = self.run(partial(self.gate.check, attempt, may_modify=may_modify))
        try:
            # Shielded: the attempt counts, even if the caller does not wait for the answer any more.
            ruling = await asyncio.wait_for(asyncio.shield(work), budget)
        except TimeoutError:
            work.add_done_callback(self._finish_late)
            return self._unjudged(attempt, f"no answer within {budget:g} seconds"), False
        except StreamGuardError as error:
            return self._unjudged(attempt, str(error)), False
        finally:
            self._seconds.observe(time.monotonic() - began)
        if ruling.action in (Action.ALLOW, Action.MODIFY) and time.monotonic() - began > budget:
            return self._unjudged(attempt, f"no answer within {budget:g} seconds"), False
        return ruling, True

    def run(self, work: Callable[..., Answer], *values: object) -> asyncio.Future[Answer]:
        """Run a function in the thread that judges."""
        return asyncio.get_running_loop().run_in_executor(self._worker, work, *values)

    def submit(self, work: Callable[..., Answer], *values: object) -> Future[Answer]:
        """Run a function in the thread that judges, for a caller outside the loop."""
        return self._worker.submit(work, *values)

    def tell_left(self) -> None:
        """Tell the alerts that a process which died, or a history that could not be written, has left."""
        try:
            self.gate.tell_left()
        except StreamGuardError as error:
            _logger.error("alerts of before are told at the next question: %s", error)  # noqa: TRY400  (it says why)

    def use_policy(self, policy: Policy) -> None:
        """Judge by another policy, from the next attempt on. Tenants stay as far apart as they are.

        It is compiled in the thread of the caller. The thread that judges only changes over, between two attempts.
        """
        policy = dataclasses.replace(policy, by_tenant=self.gate.policy.by_tenant)
        judge, stopping = self.gate.guard.judge_for(policy), StoppingRules(policy)
        # Attempts may wait for this. One that waits for too long stays shut if either policy might stop it.
        self._stopping = (self._stopping[0], stopping)
        self.submit(self._change_over, judge).result()
        self._stopping = (stopping,)

    def _change_over(self, judge: Judge) -> None:
        self.gate.use(judge)
        self.adopted(judge.policy)

    def alert(self, alerts: Sequence[Alert]) -> Future[None] | None:
        """Have alerts on disk for the sinks outside, and deliver them without waiting for any sink.

        What is returned is done when every sink has them, or has them on disk.
        """
        if not alerts or self._delivery is None:
            return None
        self._delivery.keep(alerts)
        return self._sender.submit(self._deliver, self._delivery, alerts)

    def close(self) -> None:
        """Finish the work that was started, and end the threads."""
        self._worker.shutdown()
        self._unjudged_allows.close()
        if self._delivery is not None:
            self._delivery.abandon()  # a sink that hangs must not hold up the end
        self._sender.shutdown()

    def _deliver(self, delivery: Delivery, alerts: Sequence[Alert]) -> None:
        try:
            delivery.hand_over(alerts)
            delivery.flush()
        except StreamGuardError as error:
            _logger.error("%d alerts were not delivered: %s", len(alerts), error)  # noqa: TRY400  (it says why)
            raise

    def _alert_of_failure(self, alerts: Sequence[Alert]) -> None:
        try:
            self.alert(alerts)
        except StreamGuardError as error:  # the caller needs an answer even so
            _logger.error("an alert could not be kept: %s", error)  # noqa: TRY400  (it says why)

    def _finish_late(self, work: asyncio.Future[Ruling]) -> None:
        """Log why an attempt was not judged, after the answer was given."""
        error = None if work.cancelled() else work.exception()
        if error is not None:
            _logger.error("an attempt could not be judged: %s", error)

    def _stops(self, tool: str) -> bool:
        """Whether a rule might stop attempts at this tool, and stays shut when it cannot judge."""
        return any(rules.may_stop(tool) for rules in self._stopping)

    def _unjudged(self, attempt: ToolCall, why: str) -> Ruling:
        # Overload is closed for rules that stop, whatever the operator chose for the others: a flood opens nothing.
        got = "closed" if self.settings.on_error == "closed" or self._stops(attempt.tool) else "open"
        version = self.gate.policy.version
        allow = Ruling(action=Action.ALLOW, reason=f"not judged: {why}", policy_version=version)
        if got == "open" and not self._unjudged_allows.add(attempt, allow):
            got, why = "closed", f"{why}, and the audit cannot take more that was not judged"
        self.failures[got] += 1
        if got == "closed":
            _logger.warning("an attempt was blocked without being judged: %s", why)
            return Ruling(action=Action.BLOCK, reason=f"not judged: {why}", policy_version=version)
        _logger.error("an attempt was allowed without being judged: %s", why)
        alert = Alert(
            alert_id=f"{FAIL_OPEN}.{mask_id(attempt.session_id)}.{mask_id(attempt.event_id or attempt.call_id)}",
            rule_id=FAIL_OPEN,
            kind=FAIL_OPEN,
            severity="critical",
            session_id=attempt.session_id,
            event_id=mask_id(attempt.event_id),
            index=None,
            time=attempt.time,
            detail=f"an attempt was allowed without being judged: {why}",
            policy_version=version,
        )
        self._alert_of_failure([alert])
        return replace(allow, alerts=(alert,))


class GateMetrics(Collector):
    """Exposes the counters of a service to Prometheus."""

    def __init__(self, service: Service) -> None:
        self._service = service
        service.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric as it is now."""
        decisions = CounterMetricFamily("stream_guard_decisions", "Answers to attempts", labels=["action"])
        for action in Action:
            decisions.add_metric([action.word], self._service.gate.decisions[action])
        yield decisions
        failures = CounterMetricFamily(
            "stream_guard_gate_failures", "Attempts answered without judgement: blocked, or let through", labels=["got"]
        )
        for got in ("closed", "open"):
            failures.add_metric([got], self._service.failures[got])
        yield failures
        refused = CounterMetricFamily(
            "stream_guard_requests_refused", "Requests that were not taken in: busy, or too slow", labels=["why"]
        )
        for why in REFUSALS:
            refused.add_metric([why], self._service.refused[why])
        yield refused


class StoppingRules:
    """The rules of one policy that stop attempts, and stay shut when they cannot judge."""

    def __init__(self, policy: Policy) -> None:
        self._names = ToolNames(policy)
        self._rules = [
            rule
            for rule in policy.rules
            if rule.then not in (None, Action.ALLOW) and rule.on_error == "closed" and not rule.shadow
        ]

    def may_stop(self, tool: str) -> bool:
        """Whether one of them might speak of the tool, under the name that it is judged by."""
        seen = self._names[tool]
        tool = tool if seen is None else seen.tool
        return any((tools := rule.rule.tools()) is None or tools.matches(tool) for rule in self._rules)


MOST_UNJUDGED: Final = 4096  # allows that may wait for a history that cannot be written
_PAUSE: Final = 0.5  # seconds before it is tried again


class UnjudgedAllows:
    """Records allows in the order in which they were given. A record that cannot be written yet is tried again.

    ``add`` refuses more than ``most`` that wait: an allow that nobody will find in the audit is not to be given.
    """

    def __init__(self, gate: Gate, most: int = MOST_UNJUDGED) -> None:
        self._gate = gate
        self._most = most
        self._waiting = 0
        self._lock = Lock()
        self._closing = Event()
        # Not the thread that judges: that it is late is why there is something to record.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="stream_guard-unjudged")

    def add(self, attempt: ToolCall, ruling: Ruling) -> bool:
        """Have an allow recorded; False when too many wait already."""
        with self._lock:
            if self._waiting >= self._most:
                return False
            self._waiting += 1
        self._writer.submit(self._write, attempt, ruling)
        return True

    def close(self) -> None:
        """Write what waits, and say how much could not be written."""
        self._closing.set()
        self._writer.shutdown()
        if self._waiting:
            _logger.error("%d attempts that were allowed without being judged are not in the audit", self._waiting)

    def _write(self, attempt: ToolCall, ruling: Ruling) -> None:
        failed = False
        while True:
            try:
                self._gate.record_unjudged(attempt, ruling)
            except StreamGuardError as error:
                if not failed:
                    _logger.error("an allow without judgement is not in the audit yet: %s", error)  # noqa: TRY400
                failed = True
                if self._closing.wait(_PAUSE):
                    return
                continue
            with self._lock:
                self._waiting -= 1
            return
