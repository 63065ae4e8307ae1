"""Running a worker: connected, started, watched, and stopped in an order that loses nothing."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import aiokafka
from aiokafka.errors import KafkaError

from stream_guard.dead_letters import DeadLetters
from stream_guard.engine import Engine
from stream_guard.errors import SettingsError, SourceError, StoreError, StreamGuardError
from stream_guard.kafka.address import Address
from stream_guard.kafka.client import NAME, choose_servers, security_options
from stream_guard.policy.spec import Policy
from stream_guard.ports import Decoder, Sink
from stream_guard.settings import Settings
from stream_guard.stream.app import TableRows, WorkerApp, make_app
from stream_guard.stream.health import Health
from stream_guard.stream.judge import Judge
from stream_guard.stream.rows import topic_tag

LOOK: Final = 0.2  # seconds between two looks at how the worker is doing
FAREWELL: Final = 20.0  # seconds to leave the group in

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker is made of, beside Kafka itself."""

    engine: Engine
    decoder: Decoder
    sinks: Mapping[str, Sink]
    dead_letters: DeadLetters
    settings: Settings
    health: Health
    observe: Callable[[float], None]  # told how many seconds each batch took
    beat: Callable[[], None] = lambda: None  # called as often as the worker looks after itself
    reload: Callable[[], Policy | None] = lambda: None  # asked now and then for a policy to go on with
    adopted: Callable[[Policy], None] = lambda _: None  # told before such a policy judges


async def run_worker(address: Address, parts: Parts) -> None:
    """Judge what comes on the topics until SIGINT or SIGTERM; StreamGuardError says why it ended otherwise."""
    refuse_spanning(parts.engine)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    servers = choose_servers(address.servers, parts.settings.kafka)
    _logger.info("a worker of group %s on %s", parts.settings.worker.group, ", ".join(address.topics))
    producer = await _connect(servers, parts.settings)
    try:
        app = make_app(parts.settings, servers, address.topics, await _count_partitions(producer, address.topics))
        app.judge = Judge(
            engine=parts.engine,
            decoder=parts.decoder,
            sinks=parts.sinks,
            dead_letters=parts.dead_letters,
            rows=TableRows(app, producer),
            settings=parts.settings,
            observe=parts.observe,
        )
        await _run(app, parts, stop)
    finally:
        with suppress(KafkaError):
            await producer.stop()


def refuse_spanning(engine: Engine) -> None:
    """Raise SettingsError for rules that look across sessions: a worker sees only its own partitions."""
    rules = [bound.spec for group in engine.spanning for bound in group.index.bounds]
    if rules:
        named = ", ".join(f"{rule.id} (key: {', '.join(rule.key)})" for rule in rules)
        raise SettingsError(
            f"the worker judges sessions, and these rules look across them: {named}; "
            "add session to their key, or watch them with `stream-guard run kafka://...`, which sees all partitions"
        )


async def _connect(servers: Sequence[str], settings: Settings) -> Any:
    """Return a started producer; a broker that is not there yet is waited for, as long as the patience."""
    end = time.monotonic() + settings.kafka.patience
    while True:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=list(servers),
            client_id=NAME,
            acks="all",
            enable_idempotence=True,
            linger_ms=2,
            max_batch_size=256 * 1024,
            max_request_size=64 * 2**20,
            **security_options(settings.kafka),
        )
        try:
            await producer.start()
        except KafkaError as error:
            with suppress(KafkaError):
                await producer.stop()
            if time.monotonic() >= end:
                where = ",".join(servers)
                raise SourceError(f"{where}: no broker answers: {error}; check the address and the network") from error
            await asyncio.sleep(1.0)
        else:
            return producer


async def _count_partitions(producer: Any, topics: Sequence[str]) -> int:
    """Return the number of partitions that all topics have; sessions of several topics meet by that number."""
    counts: dict[str, int] = {}
    for topic in topics:
        try:
            counts[topic] = len(await producer.partitions_for(topic))
        except KafkaError as error:
            raise SourceError(f"there is no topic {topic!r} that we may read: {error!r}; create it") from error
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
        raise SettingsError(f"the topics of a worker need the same number of partitions: {told}")
    if len({topic_tag(topic) for topic in topics}) < len(topics):
        raise SettingsError("two of the topics have the same 32-bit tag by chance, or one is named twice")
    return next(iter(counts.values()))


async def _run(app: WorkerApp, parts: Parts, stop: asyncio.Event) -> None:
    starting = asyncio.ensure_future(app.start())
    try:
        await _watch(app, parts, stop, starting)
    finally:
        starting.cancel()
        with suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(app.stop(), FAREWELL)


async def _watch(app: WorkerApp, parts: Parts, stop: asyncio.Event, starting: asyncio.Future[None]) -> None:
    """Return when the worker is to stop; StreamGuardError when it cannot go on."""
    while not stop.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK)
        parts.beat()
        if starting.done() and not starting.cancelled() and (error := starting.exception()) is not None:
            raise StreamGuardError(f"the worker could not start: {error!r}") from error
        if (reason := app.crash_reason) is not None:
            raise StreamGuardError(f"the worker cannot go on: {reason!r}; start it again") from reason
        if not starting.done():
            continue
        consumer = app.batches
        if consumer.failure is not None:
            raise _explain(consumer.failure) from consumer.failure
        parts.health.look(consumer.troubles(), consumer.lag())
        if stuck := parts.health.stuck():
            raise SourceError(f"{stuck}; nothing is lost: start the worker again")
        await _reload(app, parts)


async def _reload(app: WorkerApp, parts: Parts) -> None:
    """Change the policy between two batches, when there is another good one."""
    policy = parts.reload()
    if policy is None:
        return
    old = parts.engine
    engine = Engine(policy, old.counts, mode="stream", max_states=old.max_states)
    try:
        refuse_spanning(engine)
    except SettingsError as error:
        _logger.warning("policy %s is not used: %s", policy.version, error)
        return
    async with app.batches.between_batches():
        parts.adopted(policy)
        app.judge.use(engine)


def _explain(failure: BaseException) -> StreamGuardError:
    if isinstance(failure, StreamGuardError):
        return failure
    if isinstance(failure, KafkaError):
        return StoreError(f"states cannot be written: {failure!r}; nothing is committed until they can: start again")
    return StreamGuardError(f"the worker met an error that it does not know: {failure!r}; nothing was skipped")
