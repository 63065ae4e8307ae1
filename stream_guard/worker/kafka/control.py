"""The control topic of a group: rollouts are read from it, and switches written to it for those who look on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import aiokafka
from aiokafka.errors import KafkaError

from stream_guard.errors import SettingsError, SourceError
from stream_guard.kafka.client import NAME
from stream_guard.settings import Settings
from stream_guard.worker.kafka.descriptions import describe_topics
from stream_guard.worker.kafka.login import login_options
from stream_guard.worker.rollouts import PolicySwitch, RolloutLog, encode_switch, switch_key

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
        self._consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=list(servers),
            client_id=NAME,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            **login_options(settings.kafka),
        )
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
