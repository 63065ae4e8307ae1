"""The process of a worker: connect, start, check regularly, and stop without losing anything."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import aiokafka
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from stream_guard.errors import SettingsError, SourceError, StoreError, StreamGuardError
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.kafka.address import Address
from stream_guard.kafka.client import choose_servers
from stream_guard.kafka.security import login_failure
from stream_guard.settings import KafkaSettings, Settings
from stream_guard.worker.assembly import WorkerParts, build_stages
from stream_guard.worker.kafka.app import WorkerApp, changelog_topic, make_app, open_table
from stream_guard.worker.kafka.clients import connect, make_consumer
from stream_guard.worker.kafka.topics import KafkaOutbox, accepts_gaps, count_partitions, describe_topics, make_topics
from stream_guard.worker.rollouts import PolicySwitch, RolloutLog, VersionedRouter, encode_switch, switch_key

# The control topic of a group: rollouts are read from it, and switches written to it for those who look on.

WAIT_MS: Final = 200  # how long one look at the topic waits for records, at the start


class ControlTopic:
    """Reads rollouts into a log. One task at a time calls it."""

    def __init__(self, topic: str, log: RolloutLog, producer: Any) -> None:
        self.log = log
        self._topic = topic
        self._producer = producer
        self._consumer: Any = None

    async def open(self, servers: Sequence[str], settings: Settings) -> None:
        """Read all that is there; SettingsError for a topic that has no single order, SourceError when it is away."""
        described = await describe_topics(self._producer.client, [self._topic], patience=settings.kafka.patience)
        found = described.get(self._topic)
        if found is None or found.partitions != 1:
            what = "is not there" if found is None else f"has {found.partitions} partitions"
            raise SettingsError(
                f"worker.policy_topic: the topic {self._topic} {what}; create it with one partition, so that rollouts "
                "have one order, and with cleanup.policy=compact"
            )
        self._consumer = make_consumer(servers, settings.kafka, reset="earliest")
        partition = aiokafka.TopicPartition(self._topic, 0)
        try:
            await self._consumer.start()
            self._consumer.assign([partition])
            await self._consumer.seek_to_beginning(partition)
            (end,) = (await self._consumer.end_offsets([partition])).values()
            patience = time.monotonic() + settings.kafka.patience
            while await self._consumer.position(partition) < end:
                if time.monotonic() > patience:
                    raise SourceError(f"{self._topic}: its rollouts cannot be read to their end; look at the brokers")
                await self._fetch(WAIT_MS)
        except KafkaError as error:
            raise SourceError(f"{self._topic}: its rollouts cannot be read: {error!r}; look at the rights") from error
        self.log.choose()

    async def read(self) -> None:
        """Take in what has come; SourceError when the topic cannot be read any more."""
        await self._fetch(0)
        self.log.choose()

    async def _fetch(self, wait_ms: int) -> None:
        try:
            fetched = await self._consumer.getmany(timeout_ms=wait_ms)
        except KafkaError as error:
            raise SourceError(f"{self._topic}: its rollouts cannot be read: {error!r}; look at the rights") from error
        for records in fetched.values():
            for record in records:
                self.log.add(record.offset, record.key, record.value)

    async def tell(self, switches: Sequence[PolicySwitch]) -> None:
        """Write which partitions were switched. The rows of the partitions are what counts."""
        for switch in switches:
            with suppress(KafkaError):
                await self._producer.send_and_wait(
                    self._topic, encode_switch(switch), key=switch_key(switch), partition=0
                )

    async def close(self) -> None:
        """Stop reading."""
        if self._consumer is not None:
            await self._consumer.stop()


CHECK: Final = 0.2  # seconds between two checks of the worker
LEAVE: Final = 20.0  # seconds to leave the group
ABORT: Final = 2.0  # seconds to leave it after a failure: everything that counts is acknowledged
PAUSE: Final = 1.0  # seconds before a worker that could not start tries again
PING: Final = 2.0  # seconds between two requests to the cluster

_logger = logging.getLogger(__name__)


async def run_worker(address: Address, parts: WorkerParts) -> None:
    """Process the topics until SIGINT or SIGTERM; raise StreamGuardError when the worker cannot go on."""
    accept_gaps = accepts_gaps(address)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    servers = choose_servers(address.servers, parts.settings.kafka)
    _logger.info("a worker of group %s on %s", parts.settings.worker.group, ", ".join(address.topics))
    patience = parts.settings.kafka.patience
    producer = await connect(servers, parts.settings)

    async def work() -> None:
        changelog = changelog_topic(parts.settings)
        with _cannot_start():
            partitions = await count_partitions(producer, address.topics, changelog, patience=patience)
        app = make_app(parts.settings, servers, partitions)
        app.client, app.sources, app.accept_gaps = producer.client, address.topics, accept_gaps
        open_table(app, parts.settings, servers, producer)
        outbox = partial(KafkaOutbox, producer)
        app.stages = build_stages(parts, app.rows, outbox, address.topics, partitions, app.find_ends)
        passing = set(app.stages.topics) - set(address.topics)
        with _cannot_start():
            await make_topics(producer, list(servers), parts.settings, changelog, passing, partitions)
        app.topics.add(app.topic(*app.stages.topics, key_type=bytes, value_type=bytes))
        control = await _open_control(parts, servers, producer)
        try:
            await _run(app, parts, stop, BrokerHealth(producer.client, parts.settings.kafka), control)
        finally:
            if control is not None:
                await control.close()

    try:
        await start_patiently(work, stop, parts.beat, patience=patience)
    finally:
        # Everything that must be kept is acknowledged. Without a limit this would wait for an absent broker for ever.
        with suppress(KafkaError, TimeoutError):
            await asyncio.wait_for(producer.stop(), LEAVE / 4)


class CannotStartError(SourceError):
    """The worker could not start; it has processed nothing."""


@contextmanager
def _cannot_start() -> Iterator[None]:
    """Say of an error of the brokers that nothing was processed before it."""
    try:
        yield
    except SourceError as error:
        if isinstance(error.__cause__, KafkaError):
            raise CannotStartError(str(error)) from error.__cause__
        raise


async def start_patiently(
    work: Callable[[], Awaitable[None]],
    stop: asyncio.Event,
    beat: Callable[[], None],
    *,
    patience: float,
    pause: float = PAUSE,
) -> None:
    """Do the work; begin it anew while it cannot start because a broker is away, for at most the patience.

    A worker that could not start has processed nothing, so a new beginning repeats nothing.
    """
    end: float | None = None
    while not stop.is_set():
        try:
            await work()
        except CannotStartError as error:
            cause = error.__cause__
            if not (isinstance(cause, KafkaError) and cause.retriable):
                raise
            now = time.monotonic()
            end = now + patience if end is None else end
            if now >= end:
                raise SourceError(
                    f"{error}; it was so for {patience:.0f} s (kafka.patience); look at the brokers, and start the "
                    "worker again when this is mended"
                ) from cause
            _logger.warning("%s; the worker tries again", error)
        else:
            return
        beat()
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


async def _open_control(parts: WorkerParts, servers: Sequence[str], producer: Any) -> ControlTopic | None:
    """Return the topic with the policies, read to its end; None where the file's policy is in force."""
    if parts.rollouts is None:
        return None
    control = ControlTopic(parts.settings.worker.policy_topic, parts.rollouts, producer)
    with _cannot_start():
        await control.open(servers, parts.settings)
    return control


async def _run(
    app: WorkerApp, parts: WorkerParts, stop: asyncio.Event, broker: BrokerHealth, control: ControlTopic | None
) -> None:
    starting = asyncio.ensure_future(app.start())
    seconds = ABORT
    try:
        await _watch(app, parts, stop, starting, broker, control)
        seconds = LEAVE
    finally:
        starting.cancel()
        with suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(app.stop(), seconds)
        with suppress(TimeoutError):
            await asyncio.wait_for(app.follower.stop(), ABORT)


async def _watch(
    app: WorkerApp,
    parts: WorkerParts,
    stop: asyncio.Event,
    starting: asyncio.Future[None],
    broker: BrokerHealth,
    control: ControlTopic | None,
) -> None:
    """Return when the worker is asked to stop; raise StreamGuardError when it cannot go on."""
    while not stop.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), CHECK)
        parts.beat()
        broker.check()
        if starting.done() and not starting.cancelled() and (error := starting.exception()) is not None:
            raise CannotStartError(f"the worker could not start: {error!r}") from error
        if (reason := app.crash_reason) is not None:
            raise StreamGuardError(f"the worker cannot go on: {reason!r}; start it again") from reason
        consumer = app.batch_consumer
        consumer.watch_membership()
        if starting.done():
            consumer.watch_assignment()
            consumer.watch_copies()
        if consumer.failure is not None:
            raise _explain(consumer.failure) from consumer.failure
        if not starting.done():
            continue
        await consumer.refresh_end_offsets()
        _report(app, parts.judge.counts)
        parts.health.update([*broker.unready(), *consumer.unready()], consumer.lag(), consumer.handled)
        if stuck := parts.health.stuck():
            raise SourceError(f"{stuck}; nothing is lost: start the worker again")
        await _reload(app, parts)
        if control is not None and isinstance(app.stages, VersionedRouter):
            await control.read()
            await control.tell(app.stages.take_switches())
            control.log.collect_counts()


def _report(app: WorkerApp, counts: Counts) -> None:
    """Tell the metrics how it is now."""
    consumer = app.batch_consumer
    # Replaced in one step: another thread reads them.
    counts.partition_lag = defaultdict(int, consumer.lags())
    counts.rebalances = consumer.rebalances
    counts.restore = defaultdict(float, consumer.restore())
    counts.state_bytes = app.measure_states()
    counts.copies = defaultdict(int, consumer.count_copies())


async def _reload(app: WorkerApp, parts: WorkerParts) -> None:
    """Use a changed policy, from the next batch on."""
    policy = parts.reload()
    if policy is None:
        return
    old = parts.judge
    judge = Judge(policy, old.limits, mode="stream", counts=old.counts, answers=old.answers)
    async with app.batch_consumer.between_batches():
        parts.adopted(policy)
        app.stages.use(judge)


def _explain(failure: BaseException) -> StreamGuardError:
    if isinstance(failure, StreamGuardError):
        return failure
    if isinstance(failure, MessageSizeTooLargeError):
        return StoreError(
            f"states cannot be written: {failure!r}; a topic of the group takes less than when the worker started: "
            "start it again, and it raises max.message.bytes or says what to set; nothing is lost"
        )
    if isinstance(failure, KafkaError):
        return StoreError(
            f"states cannot be written: {failure!r}; look at the brokers, their logs and disks; nothing is lost: "
            "start the worker again when they can be"
        )
    return StreamGuardError(f"the worker met an error that it does not know: {failure!r}; nothing was skipped")


class BrokerHealth:
    """Pings the cluster, and knows since when it has not answered. The clients retry for ever and do not report it."""

    def __init__(self, client: Any, kafka: KafkaSettings) -> None:
        self._client = client
        self._kafka = kafka
        self._patience = kafka.patience
        self._answered = self._sent = time.monotonic()
        self._request: asyncio.Future[bool] | None = None

    def check(self) -> None:
        """Read the response, if there is one, and send the next request; raise SourceError after the patience."""
        now = time.monotonic()
        request = self._request
        if request is not None and request.done():
            if not request.cancelled() and request.exception() is None and request.result():
                self._answered = now
            self._request = None
        if self._request is None and now - self._sent >= PING:
            self._sent = now
            self._request = asyncio.ensure_future(self._client.force_metadata_update())
        if self._silence() > self._patience:
            missing = login_failure(self._kafka)
            advice = "look at the brokers and their disks" if missing is None else f"there is no token: {missing}"
            raise SourceError(
                f"no broker has answered for {self._silence():.0f} s (kafka.patience is {self._patience:.0f} s); "
                f"{advice}; nothing is lost: start the worker again when they are back"
            )

    def unready(self) -> list[str]:
        """Return the reason why the worker is not ready, when no broker answers."""
        silence = self._silence()
        return [f"no broker has answered for {silence:.0f} s"] if silence > 3 * PING else []

    def _silence(self) -> float:
        return time.monotonic() - self._answered
