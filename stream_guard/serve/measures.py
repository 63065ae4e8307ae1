"""Metrics of the gate: decisions, and attempts that were not judged."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from stream_guard.model import Action
from stream_guard.serve.service import Service


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
