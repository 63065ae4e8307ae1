"""The topics of a worker: how many partitions they have, and those that it makes for itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from stream_guard.errors import SettingsError, SourceError
from stream_guard.kafka.client import NAME, security_options
from stream_guard.settings import Settings
from stream_guard.worker.rows import topic_tag


async def connect(servers: Sequence[str], settings: Settings) -> Any:
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


async def count_partitions(producer: Any, topics: Sequence[str]) -> int:
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


async def make_topics(servers: Sequence[str], settings: Settings, names: Collection[str], partitions: int) -> None:
    """Make the topics through which workers pass records to each other, where they are not there yet."""
    if not names:
        return
    configs = {"max.message.bytes": str(settings.decode.max_record_bytes + 2**20)}
    copies = settings.worker.replication_factor
    wanted = [NewTopic(name, partitions, copies, topic_configs=configs) for name in sorted(names)]
    admin = AIOKafkaAdminClient(bootstrap_servers=list(servers), client_id=NAME, **security_options(settings.kafka))
    try:
        await admin.start()
        answer = await admin.create_topics(wanted)
    except KafkaError as error:
        raise SourceError(f"the topics {', '.join(sorted(names))} cannot be made: {error!r}; make them") from error
    finally:
        await admin.close()
    for name, code, *reason in answer.topic_errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            raise SourceError(f"the topic {name} cannot be made: {for_code(code).__name__} {reason}; make it")
