"""Putting a server together, and taking it apart again, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from stream_guard.guard.gate import Gate
from stream_guard.guard.inline import Guard
from stream_guard.guard.reviews import Reviews
from stream_guard.history.opening import open_database
from stream_guard.model import Alert
from stream_guard.observability.counts import Counts
from stream_guard.observability.metrics import Metrics
from stream_guard.policy.spec import Policy
from stream_guard.ports import Decoder, Sink
from stream_guard.serve.access import token_of
from stream_guard.serve.app import make_app
from stream_guard.serve.measures import GateMetrics
from stream_guard.serve.server import listen, serve
from stream_guard.serve.service import Service
from stream_guard.settings import Settings
from stream_guard.storage.stores import CheckpointStore


@dataclass(frozen=True, slots=True)
class Ready:
    """A server that listens and does not answer yet."""

    app: ASGIApp
    opened: socket
    url: str

    def serve(self, ready: Callable[[], None]) -> None:
        """Answer until the process is told to stop."""
        serve(self.app, self.opened, ready)


@contextmanager
def assemble(
    policy: Policy,
    settings: Settings,
    decoder: Decoder,
    sinks: Sequence[Sink] = (),
    *,
    checkpoint: Path | None = None,
) -> Iterator[Ready]:
    """Open everything a server needs, in an order that fails before anybody can connect."""
    with ExitStack() as opened:
        token = token_of(settings.api)
        database = open_database(settings.history.url)
        opened.callback(database.close)
        counts, registry = Counts(), CollectorRegistry()
        store = CheckpointStore(checkpoint) if checkpoint is not None else None
        guard = Guard(policy, store=store, counts=counts, limits=settings.sessions)
        if store is not None:
            opened.callback(store.close)
            opened.callback(guard.commit)
        gate = Gate(policy, database, guard=guard, reviews=Reviews(database, settings.reviews))
        Metrics(counts, registry).use_rules(policy.rules)
        service = Service(gate, settings.api, registry=registry, send=_sender(sinks))
        GateMetrics(service)
        opened.callback(service.close)
        listening, url = listen(settings.api)
        opened.callback(listening.close)
        yield Ready(make_app(service, decoder, token), listening, url)


def _sender(sinks: Sequence[Sink]) -> Callable[[list[Alert]], None] | None:
    def send(alerts: list[Alert]) -> None:
        for sink in sinks:
            sink.send(alerts)

    return send if sinks else None
