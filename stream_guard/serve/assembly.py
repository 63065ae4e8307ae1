"""A server that decides on attempts: its parts, the policy file it follows, its socket, and how it is stopped."""

from __future__ import annotations

import logging
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from types import FrameType
from typing import Final

import uvicorn
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from stream_guard.asking.desk import QuestionDesk
from stream_guard.distribution import install_line
from stream_guard.errors import SettingsError, StoreError
from stream_guard.guard.clocks import ReceiverClock
from stream_guard.guard.follow_up import settled_in
from stream_guard.guard.gate import Gate
from stream_guard.guard.inline import Guard
from stream_guard.guard.reviews import Reviews
from stream_guard.history import policies
from stream_guard.history.database import is_postgres, open_database
from stream_guard.history.kept_events import EventKeeper
from stream_guard.http.server import ConnectionLimits, listen, make_config
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Event
from stream_guard.judge.spec import Policy
from stream_guard.observability.metrics import Metrics
from stream_guard.policy.convert import to_native
from stream_guard.ports import Decoder
from stream_guard.running.assembly import Assembly, start_desk
from stream_guard.running.reload import ReloadingPolicy
from stream_guard.serve.access import Door, open_door
from stream_guard.serve.app import OwnGate, make_app
from stream_guard.serve.decision_events import DecisionEvents
from stream_guard.serve.service import GateMetrics, Service
from stream_guard.serve.telemetry import TelemetryFeed
from stream_guard.settings import ApiSettings
from stream_guard.sources.otlp import SCHEME as OTLP
from stream_guard.sources.otlp import open_otlp
from stream_guard.storage.shared import SharedStore
from stream_guard.storage.stores import CheckpointStore

_PAUSE: Final = 0.25  # seconds between two looks at the file

_logger = logging.getLogger(__name__)


class PolicyFollower:
    """Looks at the file in a thread of its own, and compiles there: attempts do not wait for it.

    A policy comes into force once the history has it. While the history cannot be written, the old one stays, and the
    new one is tried again.
    """

    def __init__(
        self, following: ReloadingPolicy, service: Service, note: Callable[[Policy], None], pause: float = _PAUSE
    ) -> None:
        self._following, self._service, self._note, self._pause = following, service, note, pause
        self._obstacle = ""  # why a good policy is not in force yet
        following.accept = self._adopt
        self._stop = Flag()
        self._thread = Thread(target=self._run, name="stream_guard-policy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more. A change that has begun is finished."""
        self._stop.set()
        self._thread.join()

    def _adopt(self, policy: Policy) -> None:
        self._note(policy)
        self._service.use_policy(policy)

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            try:
                self._following.poll()
            except StoreError as error:
                self._say(f"the new one is tried again: {error}")
            except Exception as error:  # of a plugin, say; this thread goes on
                self._say(f"{error!r}")
                _logger.debug("the policy file could not be followed", exc_info=True)
            else:
                self._obstacle = ""

    def _say(self, obstacle: str) -> None:
        """Log and count why a policy is not in force; once, however often it is tried."""
        if obstacle != self._obstacle:
            self._following.results["failed"] += 1
            _logger.error("policy %s stays in force; %s", self._service.gate.policy.version, obstacle)
        self._obstacle = obstacle


_GRACE: Final = 5  # seconds for open requests after a signal to stop
# Seconds that a connection may rest between requests. Clients that keep connections drop them after 5 to 15: a server
# that is first closes one under a request.
_IDLE: Final = 20


@dataclass(frozen=True, slots=True)
class Ready:
    """A server that listens, but does not answer yet."""

    app: ASGIApp
    opened: socket.socket
    url: str
    settings: ApiSettings
    warning: str  # about who may ask; empty when there is nothing to say
    door: Door
    policy: Callable[[], Policy]  # the one in force
    counts: Counts
    keeper: EventKeeper | None  # keeps events for the page

    def serve(self, ready: Callable[[], None]) -> None:
        """Answer until the process is told to stop."""
        serve(self.app, self.opened, ready, self.settings)


def open_server(
    policy: Policy,
    assembly: Assembly,
    alerts: Sequence[str] = (),
    *,
    checkpoint: str | None = None,
    telemetry: str = "",
    page: bool = False,
    following: ReloadingPolicy | None = None,
) -> Ready:
    """Open everything a server needs, in an order that fails before a client can connect; ``assembly`` closes it.

    ``following`` is the file that the policy came from, where changes of it are to come into force.
    """
    settings, opened = assembly.settings, assembly.opened
    door = open_door(settings.api)
    if settings.api.tokens_file is not None:
        policy = replace(policy, by_tenant=True)  # tokens say whose events they are
    keeper = _open_keeper(assembly) if page else None
    counts = Counts()
    service = open_service(
        policy, assembly, counts, alerts, checkpoint=checkpoint, emit=None if keeper is None else keeper.keep_one
    )
    if following is not None:
        counts.policy_reloads = following.results
        # Over a connection of its own: the gate does not wait while a new policy is noted.
        follower = PolicyFollower(following, service, lambda changed: assembly.note_policy(changed, ("history",)))
        opened.callback(follower.close)
    if telemetry:
        _open_telemetry(telemetry, assembly, service, counts)
    listening, url = open_socket(settings.api)
    opened.callback(listening.close)
    decoder = assembly.make_decoder("native", tenants=False)  # tokens say whose events they are
    if settings.api.grpc_port is not None:
        _open_grpc(assembly, service, decoder, door)
    app, gate = make_app(service, decoder, door), service.gate
    return Ready(app, listening, url, settings.api, door.warning, door, lambda: gate.policy, counts, keeper)


def _open_grpc(assembly: Assembly, service: Service, decoder: Decoder, door: Door) -> None:
    """Answer gateways that ask over gRPC, too."""
    try:
        from stream_guard.serve.grpc_gateways import GrpcGateways  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        raise SettingsError(f"api.grpc_port needs {error.name}; install it with: {install_line('grpc')}") from None
    api = assembly.settings.api
    assembly.opened.callback(GrpcGateways(OwnGate(service, decoder), door, api, api.grpc_port or 0).close)


def open_service(
    policy: Policy,
    assembly: Assembly,
    counts: Counts,
    alerts: Sequence[str] = (),
    *,
    checkpoint: str | None = None,
    emit: Callable[[Event], None] | None = None,
) -> Service:
    """Open a gate with its history and what it remembers; ``assembly`` closes it."""
    settings, opened, registry = assembly.settings, assembly.opened, CollectorRegistry()
    database = open_database(settings.history.url, settings.history.read_key())
    opened.callback(database.close)
    assembly.prune_history()
    policies.note(database, policy.version, to_native(policy), time.time())
    delivery = assembly.open_delivery(alerts, counts, routes=True, is_solved=settled_in(database))
    clock = ReceiverClock(settings.sessions.max_future_skew)
    store, guard_clock = _open_state(checkpoint, assembly, clock)
    desk = assembly.open_desk(policy, "gate", counts)
    answers = desk or assembly.open_answers(policy)
    guard = Guard(
        policy,
        store=store,
        counts=counts,
        limits=settings.sessions,
        clock=guard_clock,
        answers=answers,
        keep_ended=settings.history.keep,
    )
    if store is not None:
        opened.callback(guard.commit)
    reviews = Reviews(database, settings.reviews, clock=clock)
    gate = Gate(policy, database, guard=guard, reviews=reviews, emit=emit, clock=clock)
    metrics = Metrics(counts, registry)
    metrics.use_rules(policy.rules)
    service = Service(gate, settings.api, registry=registry, delivery=delivery)
    service.adopted = lambda changed: metrics.use_rules(changed.rules)
    GateMetrics(service)
    if settings.api.decisions_to:
        events = DecisionEvents(settings.api.decisions_to)
        opened.callback(events.close)
        service.decided = events.add
    opened.callback(service.close)
    if desk is not None:
        _ask_judge(desk, gate)
    start_desk(desk, assembly)
    service.submit(service.tell_left)
    return service


def _ask_judge(desk: QuestionDesk, gate: Gate) -> None:
    """Have the guard's questions asked, and what waited for the answers followed up."""

    def follow_up() -> None:
        settled = desk.take()
        if settled:
            gate.tell([(one.finding, one.answer) for one in settled])
            desk.told(settled)

    gate.guard.ask = lambda asked: desk.put(asked, gate.policy.version)
    desk.settled = follow_up


def _open_state(
    address: str | None, assembly: Assembly, clock: ReceiverClock
) -> tuple[CheckpointStore | SharedStore | None, ReceiverClock]:
    """Open what keeps sessions, in a file or in a database that servers share; return also the guard's clock.

    Servers that share sessions have one clock, the database's: else each would have windows of its own.
    """
    if address is None or not is_postgres(address):
        # Synced: what agents asked, nobody asks again.
        return assembly.open_checkpoint(None if address is None else Path(address), synced=True), clock
    store = SharedStore(address)
    assembly.opened.callback(store.close)
    return store, ReceiverClock(assembly.settings.sessions.max_future_skew, store.time)


def _open_keeper(assembly: Assembly) -> EventKeeper:
    """Keep recent events for the page, over a connection of its own: the gate does not wait for it."""
    settings = assembly.settings
    database = open_database(settings.history.url, settings.history.read_key())
    assembly.opened.callback(database.close)
    keeper = EventKeeper(database, settings.page)
    assembly.opened.callback(keeper.close)
    return keeper


def _open_telemetry(target: str, assembly: Assembly, service: Service, counts: Counts) -> None:
    """Take in telemetry beside the gate, and let the gate judge it."""
    if not target.startswith(OTLP):
        raise SettingsError(f"--telemetry {target}: write {OTLP}HOST:PORT")
    settings, stop = assembly.settings, Flag()
    form = assembly.form_of(target, "auto")
    letters = assembly.open_dead_letters(None, form, counts)
    decoder = assembly.make_decoder(form)
    source = open_otlp(target, settings.receiver, most=settings.decode.max_record_bytes, positions={}, stop=stop)
    assembly.opened.callback(TelemetryFeed(source, decoder, letters, service, stop).close)


def open_socket(settings: ApiSettings) -> tuple[socket.socket, str]:
    """Return a listening socket and its URL, or raise SettingsError when the address cannot be used."""
    try:
        return listen(settings.host, settings.port)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; "
            "set api.host and api.port, or stop what listens there"
        ) from None


def limits_of(settings: ApiSettings) -> ConnectionLimits:
    """Return the limits of the settings."""
    return ConnectionLimits(settings.max_connections, settings.header_timeout, settings.body_timeout)


def serve(app: ASGIApp, opened: socket.socket, ready: Callable[[], None], settings: ApiSettings) -> None:
    """Answer requests until SIGINT or SIGTERM; open requests are finished first."""
    config = make_config(app, limits_of(settings), grace=_GRACE, idle=_IDLE)
    config.load()
    server = uvicorn.Server(config)

    def stop(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    # A signal may come before uvicorn takes them over. After it has stopped, it raises the signal again; that must not
    # end the process before clean-up.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    ready()  # the socket listens already: connections from here on are answered
    server.run(sockets=[opened])
