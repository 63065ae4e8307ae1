"""The parts of a server that answers before tools run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import socket

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from stream_guard.guard.gate import Gate
from stream_guard.guard.inline import Guard
from stream_guard.guard.reviews import Reviews
from stream_guard.history.opening import open_database
from stream_guard.observability.counts import Counts
from stream_guard.observability.metrics import Metrics
from stream_guard.policy.spec import Policy
from stream_guard.running.assembly import Assembly
from stream_guard.serve.access import token_of
from stream_guard.serve.app import make_app
from stream_guard.serve.measures import GateMetrics
from stream_guard.serve.server import listen, serve
from stream_guard.serve.service import Service


@dataclass(frozen=True, slots=True)
class Ready:
    """A server that listens and does not answer yet."""

    app: ASGIApp
    opened: socket
    url: str

    def serve(self, ready: Callable[[], None]) -> None:
        """Answer until the process is told to stop."""
        serve(self.app, self.opened, ready)


def open_server(
    policy: Policy, assembly: Assembly, alerts: Sequence[str] = (), *, checkpoint: Path | None = None
) -> Ready:
    """Open everything a server needs, in an order that fails before anybody can connect; ``assembly`` closes it."""
    settings, opened = assembly.settings, assembly.opened
    token = token_of(settings.api)
    database = open_database(settings.history.url)
    opened.callback(database.close)
    counts, registry = Counts(), CollectorRegistry()
    delivery = assembly.open_delivery(alerts, counts)
    store = assembly.open_checkpoint(checkpoint)
    guard = Guard(policy, store=store, counts=counts, limits=settings.sessions)
    if store is not None:
        opened.callback(guard.commit)
    gate = Gate(policy, database, guard=guard, reviews=Reviews(database, settings.reviews))
    Metrics(counts, registry).use_rules(policy.rules)
    service = Service(gate, settings.api, registry=registry, delivery=delivery)
    GateMetrics(service)
    opened.callback(service.close)
    listening, url = listen(settings.api)
    opened.callback(listening.close)
    return Ready(make_app(service, assembly.make_decoder("native"), token), listening, url)
