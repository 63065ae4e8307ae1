"""Running a worker: connected, started, watched, and stopped in an order that loses nothing."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import suppress
from typing import Final

from aiokafka.errors import KafkaError

from stream_guard.engine import Engine
from stream_guard.errors import SourceError, StoreError, StreamGuardError
from stream_guard.kafka.address import Address
from stream_guard.kafka.client import choose_servers
from stream_guard.worker.assembly import WorkerParts, build_stages
from stream_guard.worker.kafka.app import TableRows, WorkerApp, make_app, read_topics
from stream_guard.worker.kafka.broker_health import BrokerHealth
from stream_guard.worker.kafka.topics import connect, count_partitions, make_topics

LOOK: Final = 0.2  # seconds between two looks at how the worker is doing
FAREWELL: Final = 20.0  # seconds to leave the group in

_logger = logging.getLogger(__name__)


async def run_worker(address: Address, parts: WorkerParts) -> None:
    """Judge what comes on the topics until SIGINT or SIGTERM; StreamGuardError says why it ended otherwise."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    servers = choose_servers(address.servers, parts.settings.kafka)
    _logger.info("a worker of group %s on %s", parts.settings.worker.group, ", ".join(address.topics))
    producer = await connect(servers, parts.settings)
    try:
        partitions = await count_partitions(producer, address.topics)
        app = make_app(parts.settings, servers, partitions)
        app.stages = build_stages(parts, TableRows(app, producer), producer, address.topics, partitions)
        await make_topics(servers, parts.settings, set(app.stages.topics) - set(address.topics), partitions)
        read_topics(app)
        await _run(app, parts, stop, BrokerHealth(producer.client, patience=parts.settings.kafka.patience))
    finally:
        # Everything that was to be kept is acknowledged; a broker that is away would be waited for without end.
        with suppress(KafkaError, TimeoutError):
            await asyncio.wait_for(producer.stop(), FAREWELL / 4)


async def _run(app: WorkerApp, parts: WorkerParts, stop: asyncio.Event, reach: BrokerHealth) -> None:
    starting = asyncio.ensure_future(app.start())
    patience = 2.0  # a worker that cannot go on may as well be killed: what counts is acknowledged
    try:
        await _watch(app, parts, stop, starting, reach)
        patience = FAREWELL
    finally:
        starting.cancel()
        with suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(app.stop(), patience)


async def _watch(
    app: WorkerApp, parts: WorkerParts, stop: asyncio.Event, starting: asyncio.Future[None], reach: BrokerHealth
) -> None:
    """Return when the worker is to stop; StreamGuardError when it cannot go on."""
    while not stop.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK)
        parts.beat()
        reach.look()
        if starting.done() and not starting.cancelled() and (error := starting.exception()) is not None:
            raise StreamGuardError(f"the worker could not start: {error!r}") from error
        if (reason := app.crash_reason) is not None:
            raise StreamGuardError(f"the worker cannot go on: {reason!r}; start it again") from reason
        if not starting.done():
            continue
        consumer = app.batches
        if consumer.failure is not None:
            raise _explain(consumer.failure) from consumer.failure
        await consumer.ask_ends()
        parts.health.look([*reach.troubles(), *consumer.troubles()], consumer.lag(), consumer.handled)
        if stuck := parts.health.stuck():
            raise SourceError(f"{stuck}; nothing is lost: start the worker again")
        await _reload(app, parts)


async def _reload(app: WorkerApp, parts: WorkerParts) -> None:
    """Change the policy between two batches, when there is another good one."""
    policy = parts.reload()
    if policy is None:
        return
    old = parts.engine
    engine = Engine(policy, old.counts, mode="stream", max_states=old.max_states)
    async with app.batches.between_batches():
        parts.adopted(policy)
        app.stages.use(engine)


def _explain(failure: BaseException) -> StreamGuardError:
    if isinstance(failure, StreamGuardError):
        return failure
    if isinstance(failure, KafkaError):
        return StoreError(
            f"states cannot be written: {failure!r}; look at the brokers, their logs and disks; nothing is lost: "
            "start the worker again when they can be"
        )
    return StreamGuardError(f"the worker met an error that it does not know: {failure!r}; nothing was skipped")
