"""The topics of a worker: the producer, the number of partitions, the topics of its own, and writing to them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from stream_guard.errors import SettingsError, SourceError
from stream_guard.kafka.address import Address
from stream_guard.kafka.client import NAME
from stream_guard.kafka.security import login_failure
from stream_guard.kafka.writer import Outgoing
from stream_guard.observability.steady_clock import steady_time
from stream_guard.settings import Settings
from stream_guard.worker.kafka.descriptions import describe_topics, partitions_differ
from stream_guard.worker.kafka.login import login_options
from stream_guard.worker.rows import ROOM, most_bytes, topic_tag

REQUEST_MS: Final = 15_000  # how long one request may take
# Rows of an owner that was frozen are found, and the right ones written again, before compaction removes those.
COMPACTION_LAG_MS: Final = 600_000
# For so long a deleted row can be read: a copy that was not read for an hour is made anew.
DELETE_RETENTION_MS: Final = 86_400_000
LIMIT: Final = "max.message.bytes"
_OF_THE_TOPIC: Final = 1  # the source of a setting that was made for one topic

_logger = logging.getLogger(__name__)


async def connect(servers: Sequence[str], settings: Settings) -> Any:
    """Return a started producer; wait for the broker for at most ``kafka.patience`` seconds."""
    end = time.monotonic() + settings.kafka.patience
    while True:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=list(servers),
            client_id=NAME,
            acks="all",
            enable_idempotence=True,
            linger_ms=2,
            max_batch_size=256 * 1024,
            max_request_size=max(64 * 2**20, most_bytes(settings) + ROOM),
            # A broker answers the requests of a connection one after the other. Behind a write that waits for replicas
            # it would not say for longer that it is there.
            request_timeout_ms=REQUEST_MS,
            **login_options(settings.kafka),
        )
        try:
            await producer.start()
        except KafkaError as error:
            with suppress(KafkaError):
                await producer.stop()
            missing = login_failure(settings.kafka)
            if time.monotonic() >= end or (missing is not None and not missing.retryable):
                where = ",".join(servers)
                if missing is not None:
                    raise SourceError(f"{where}: there is no token to log in with: {missing}") from error
                raise SourceError(f"{where}: no broker answers: {error}; check the address and the network") from error
            await asyncio.sleep(1.0)
        else:
            # A partition without a leader is waited for as long as a broker. The client has one time limit for both.
            producer._message_accumulator._batch_ttl = max(40.0, settings.kafka.patience)  # noqa: SLF001  # as said
            return producer


def accepts_gaps(address: Address) -> bool:
    """Whether the address allows a topic to be read that was made anew; SettingsError for options of other commands."""
    for name, value in address.options.items():
        if name != "gaps" or value not in ("stop", "accept"):
            raise SettingsError(
                f"{address}: a worker does not know {name}={value}; there are gaps=stop, the default, and gaps=accept, "
                "which reads a topic that was made anew"
            )
    return address.options.get("gaps") == "accept"


async def count_partitions(producer: Any, topics: Sequence[str], changelog: str, *, patience: float) -> int:
    """Return the number of partitions of the topics. It must be the same: a session has one partition number."""
    try:
        described = await describe_topics(producer.client, [*topics, changelog], patience=patience)
    except KafkaError as error:
        raise SourceError(
            f"the topics {', '.join(topics)} cannot be looked up: {error!r}; look at the rights"
        ) from error
    for topic in topics:
        if topic not in described:
            raise SourceError(f"there is no topic {topic!r} that we may read; create it")
    counts = {topic: description.partitions for topic, description in described.items()}
    if len(set(counts.values())) > 1:
        raise partitions_differ(counts)
    if len({topic_tag(topic) for topic in topics}) < len(topics):
        raise SettingsError("two of the topics have the same 32-bit tag by chance, or one is named twice")
    return counts[topics[0]]


async def make_topics(
    producer: Any, servers: list[str], settings: Settings, changelog: str, passing: Collection[str], partitions: int
) -> None:
    """Create the changelog, and the topics through which workers pass records to each other, where they do not exist.

    Those that exist are made to take records as large as the settings allow; SettingsError where that is refused.
    Faust would create the changelog with a number of copies that it has to be told; -1 leaves it to the brokers.
    """
    copies = settings.worker.replication_factor
    configs = {LIMIT: str(most_bytes(settings) + ROOM)}
    rows = configs | {
        "cleanup.policy": "compact",
        "min.compaction.lag.ms": str(COMPACTION_LAG_MS),
        "delete.retention.ms": str(DELETE_RETENTION_MS),
    }
    wanted = {changelog: rows} | dict.fromkeys(sorted(passing), configs)
    admin = AIOKafkaAdminClient(bootstrap_servers=servers, client_id=NAME, **login_options(settings.kafka))
    try:
        there = await describe_topics(producer.client, list(wanted), patience=settings.kafka.patience)
        names = sorted(wanted.keys() - there)
        await admin.start()
        await _raise_limits(admin, sorted(there), int(configs[LIMIT]))
        if not names:
            return
        topics = [NewTopic(name, partitions, 1, topic_configs=wanted[name]) for name in names]
        for topic in topics:
            topic.replication_factor = copies  # its constructor refuses -1, which the brokers know
        answer = await admin.create_topics(topics)
    except KafkaError as error:
        raise SourceError(f"the topics {', '.join(wanted)} cannot be made: {error!r}; make them") from error
    finally:
        await admin.close()
    for name, code, *reason in answer.topic_errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            raise SourceError(
                f"the topic {name} cannot be made: {for_code(code).__name__} {reason}; make it, with {wanted[name]}"
            )


async def _raise_limits(admin: Any, topics: Sequence[str], most: int) -> None:
    """Have topics take records of so many bytes: one row that is refused would stop its partition for good."""
    low = dict[str, dict[str, str]]()
    for answer in await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]):
        for code, _, _, name, entries in answer.resources:
            if code:
                _logger.warning(
                    "whether %s takes records of %d bytes (%s) cannot be looked up: %s; see that it does",
                    *(name, most, LIMIT, for_code(code).__name__),
                )
            elif int(next(value for key, value, *_ in entries if key == LIMIT)) < most:
                low[name] = {key: value for key, value, _, source, *_ in entries if source == _OF_THE_TOPIC}
    # What a topic has of its own is sent along: the request replaces all of it.
    raised = [ConfigResource(ConfigResourceType.TOPIC, name, own | {LIMIT: str(most)}) for name, own in low.items()]
    for answer in await admin.alter_configs(raised) if raised else ():
        for code, reason, _, name in answer.resources:
            if code:
                raise SettingsError(
                    f"the topic {name} does not take records of {most} bytes, and its {LIMIT} cannot be raised: "
                    f"{for_code(code).__name__} {reason or ''}; set it to {most}, or have smaller records and "
                    "sessions with decode.max_record_bytes and sessions.max_session_bytes"
                )
            _logger.warning("the topic %s takes records of %d bytes now (%s)", name, most, LIMIT)


class KafkaOutbox:
    """Writes to the partitions of one topic, in order: a batch is sent when the batch before is acknowledged.

    After a crash a partition has a prefix of the records, and never a later record without an earlier one. So a
    reader can skip repeats by the position of the last record.
    """

    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self.topic = topic

    async def send(self, records: Mapping[int, Sequence[Outgoing]]) -> None:
        """Write the records of each partition in their order; return when the broker has acknowledged all."""
        await asyncio.gather(*(self._send(partition, listed) for partition, listed in records.items()))

    async def _send(self, partition: int, records: Sequence[Outgoing]) -> None:
        batch, now = self._producer.create_batch(), round(steady_time() * 1000)
        for key, value, headers in records:
            fields = {"key": key, "value": value, "timestamp": now, "headers": list(headers)}
            if batch.append(**fields) is None:
                await self._flush(batch, partition)
                batch = self._producer.create_batch()
                batch.append(**fields)  # an empty batch takes a record of any size
        if batch.record_count():
            await self._flush(batch, partition)

    async def _flush(self, batch: Any, partition: int) -> None:
        await (await self._producer.send_batch(batch, self.topic, partition=partition))
