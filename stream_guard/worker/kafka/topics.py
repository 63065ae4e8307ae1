"""The topics of a worker: the producer, the number of partitions, the topics of its own, and writing to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from stream_guard.errors import SettingsError, SourceError
from stream_guard.kafka.client import NAME, security_options
from stream_guard.kafka.writer import Outgoing
from stream_guard.settings import Settings
from stream_guard.worker.rows import topic_tag


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


async def count_partitions(producer: Any, topics: Sequence[str]) -> int:
    """Return the number of partitions of the topics. It must be the same: a session has one partition number."""
    counts: dict[str, int] = {}
    for topic in topics:
        try:
            counts[topic] = len(await producer.partitions_for(topic))
        except KafkaError as error:
            raise SourceError(f"there is no topic {topic!r} that we may read: {error!r}; create it") from error
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
        raise SettingsError(f"the topics of a worker need the same number of partitions: {found}")
    if len({topic_tag(topic) for topic in topics}) < len(topics):
        raise SettingsError("two of the topics have the same 32-bit tag by chance, or one is named twice")
    return next(iter(counts.values()))


async def make_topics(servers: Sequence[str], settings: Settings, names: Collection[str], partitions: int) -> None:
    """Create the topics through which workers pass records to each other, where they do not exist."""
    if not names:
        return
    configs = {"max.message.bytes": str(settings.decode.max_record_bytes + 2**20)}
    copies = settings.worker.replication_factor
    topics = [NewTopic(name, partitions, copies, topic_configs=configs) for name in sorted(names)]
    admin = AIOKafkaAdminClient(bootstrap_servers=list(servers), client_id=NAME, **security_options(settings.kafka))
    try:
        await admin.start()
        answer = await admin.create_topics(topics)
    except KafkaError as error:
        raise SourceError(f"the topics {', '.join(sorted(names))} cannot be made: {error!r}; make them") from error
    finally:
        await admin.close()
    for name, code, *reason in answer.topic_errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            raise SourceError(f"the topic {name} cannot be made: {for_code(code).__name__} {reason}; make it")


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
        batch = self._producer.create_batch()
        for key, value, headers in records:
            fields = {"key": key, "value": value, "timestamp": None, "headers": list(headers)}
            if batch.append(**fields) is None:
                await self._flush(batch, partition)
                batch = self._producer.create_batch()
                batch.append(**fields)  # an empty batch takes a record of any size
        if batch.record_count():
            await self._flush(batch, partition)

    async def _flush(self, batch: Any, partition: int) -> None:
        await (await self._producer.send_batch(batch, self.topic, partition=partition))
