"""A cluster as a test sees it: topics of its own, records put in, records read back."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import InvalidReplicationFactorError, RetriableError, TopicAlreadyExistsError

_PATIENCE: Final = 120.0  # seconds in which a broker that a busy machine left no time is asked again
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def asked_again(ask: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
    """Return a question that begins anew where no broker answered in time, or none was in the list for a moment."""

    @wraps(ask)
    def patient(*args: Arguments.args, **named: Arguments.kwargs) -> Answer:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return ask(*args, **named)
            except RetriableError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    return patient


class Row(NamedTuple):
    """One record to put into a topic; without a partition the key decides."""

    value: bytes | None
    key: bytes | None = None
    time_ms: int | None = None
    partition: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class Cluster:
    """Makes topics under names nobody else has, so that tests share a broker without meeting."""

    def __init__(self, address: str, test: str = "test") -> None:
        self.address = address
        self._prefix = re.sub(r"[^A-Za-z0-9]+", "-", test)[:80].strip("-")
        self._made: list[str] = []

    def create(self, partitions: int = 1, name: str = "", **configs: str) -> str:
        """Make a topic and return its name; a setting is written with underscores for its dots."""
        name = name or f"{self._prefix}-{uuid.uuid4().hex[:10]}"
        wanted = {
            "num_partitions": partitions,
            "replication_factor": -1,  # the brokers' default
            "configs": {key.replace("_", "."): value for key, value in configs.items()},
        }
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            _create(admin, name, wanted)
        finally:
            admin.close()
        self._made.append(name)
        return name

    def url(self, *topics: str, query: str = "") -> str:
        """The address of topics, as our command line takes it."""
        return f"kafka://{self.address}/{','.join(topics)}{query and '?'}{query}"

    def fill(self, topic: str, rows: Iterable[Row], **options: Any) -> None:
        """Write the rows in their order and wait until they are there."""
        producer = KafkaProducer(
            bootstrap_servers=self.address, linger_ms=20, batch_size=262_144, max_request_size=64 << 20, **options
        )
        try:
            sent = [
                producer.send(
                    topic,
                    key=row.key,
                    value=row.value,
                    timestamp_ms=row.time_ms,
                    partition=row.partition,
                    headers=list(row.headers),
                )
                for row in rows
            ]
            for future in sent:
                future.get(60)
        finally:
            producer.close()

    def fill_one_batch(self, topic: str, rows: Sequence[Row], codec: str) -> None:
        """Write the rows as one packed batch, however large they are."""
        producer = KafkaProducer(
            bootstrap_servers=self.address,
            linger_ms=60_000,
            batch_size=1 << 30,
            max_request_size=1 << 30,
            compression_type=codec,
        )
        try:
            sent = [producer.send(topic, key=row.key, value=row.value, partition=row.partition) for row in rows]
            producer.flush(60)
            for future in sent:
                future.get(60)
        finally:
            producer.close()

    @contextmanager
    def reader(self) -> Iterator[KafkaConsumer]:
        """A client for ``read``, for those who look often: a new one takes longer than a look."""
        consumer = KafkaConsumer(bootstrap_servers=self.address, auto_offset_reset="earliest", enable_auto_commit=False)
        try:
            yield consumer
        finally:
            consumer.close()

    @asked_again
    def read(self, topic: str, since: dict[int, int] | None = None, reader: KafkaConsumer | None = None) -> list[Any]:
        """Return everything that is in a topic now, partition by partition.

        ``since`` holds, by partition, what was read before, and is brought up to date when all was read.
        """
        since = {} if since is None else since
        reached = dict(since)
        with nullcontext(reader) if reader is not None else self.reader() as consumer:
            found: list[Any] = []
            partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
            for partition, end in sorted(consumer.end_offsets(partitions).items()):
                if since.get(partition.partition) == end:
                    continue
                consumer.assign([partition])
                if partition.partition in since:
                    consumer.seek(partition, since[partition.partition])
                else:
                    consumer.seek_to_beginning(partition)
                while consumer.position(partition) < end:
                    for records in consumer.poll(timeout_ms=500).values():
                        found += records
                reached[partition.partition] = consumer.position(partition)
            since |= reached
            return found

    @asked_again
    def uncommitted(self, group: str, topics: Sequence[str]) -> int:
        """How many records of topics a group has not committed yet; a topic that is not there has one."""
        consumer = KafkaConsumer(bootstrap_servers=self.address, group_id=group, enable_auto_commit=False)
        try:
            left = 0
            for topic in topics:
                numbers = consumer.partitions_for_topic(topic)
                if not numbers:
                    left += 1
                    continue
                partitions = [TopicPartition(topic, number) for number in numbers]
                ends = consumer.end_offsets(partitions)
                left += sum(end - (consumer.committed(partition) or 0) for partition, end in ends.items())
            return left
        finally:
            consumer.close()

    def forget_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """Delete the records before an offset, as retention does."""
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            admin.delete_records({TopicPartition(topic, partition): offset})
        finally:
            admin.close()

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions."""
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            admin.create_partitions({topic: total})
        finally:
            admin.close()

    def recreate(self, topic: str, partitions: int = 1) -> None:
        """Delete a topic that was made here and make it anew, empty."""
        self.delete([topic])
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            _create(admin, topic, {"num_partitions": partitions, "replication_factor": -1})
        finally:
            admin.close()

    def delete(self, topics: Sequence[str] | None = None) -> None:
        """Delete topics, or all that were made here."""
        doomed = self._made if topics is None else list(topics)
        if not doomed:
            return
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            admin.delete_topics(doomed, raise_errors=False)
        finally:
            admin.close()


def _create(admin: KafkaAdminClient, topic: str, wanted: dict[str, Any]) -> None:
    """Make a topic, once no other of its name is left, and once a broker that a busy machine held up is heard again."""
    end = time.monotonic() + 60
    while True:
        try:
            admin.create_topics({topic: wanted}, wait_for_metadata=True)
        except (TopicAlreadyExistsError, InvalidReplicationFactorError):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return
