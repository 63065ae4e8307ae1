"""The metrics and the health of an embedded run."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from stream_guard.judge.counts import Counts
from stream_guard.judge.spec import Policy
from stream_guard.observability.metrics import Metrics
from stream_guard.observability.status import StallDetector, StatusServer
from stream_guard.settings import StatusSettings


class RunStatus:
    """Serves the metrics and the health of one run over HTTP."""

    def __init__(self, counts: Counts, policy: Policy, settings: StatusSettings) -> None:
        registry = CollectorRegistry()
        self._counts = counts
        self._metrics = Metrics(counts, registry)
        self._stall = StallDetector()
        self.lag: Callable[[], int] = int  # records that wait in the topics; 0 for other sources
        self._started = False
        self._rules = len(policy.rules)
        self._server = StatusServer(settings, registry, unready=self._unready, stuck=self._stall.reason)
        self.url, self.close = self._server.url, self._server.close
        self.use_policy(policy)

    def use_policy(self, policy: Policy) -> None:
        """Count by the rules of another policy from here on."""
        self._rules = len(policy.rules)
        self._metrics.use_rules(policy.rules)

    def batch(self, records: int, seconds: float) -> None:
        """Record that a batch is done; an empty batch means that the source is idle."""
        self._started = True
        self._server.beat()
        self._counts.lag = self.lag()
        self._stall.feed(self._counts.records, self._counts.lag)
        if records:
            self._metrics.batch_seconds.observe(seconds)

    def _unready(self) -> list[str]:
        reasons = {
            "the first look at the source is not over": not self._started,
            "the policy has no rules": not self._rules,
        }
        return [reason for reason, holds in reasons.items() if holds]
