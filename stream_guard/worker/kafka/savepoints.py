"""Savepoints on Kafka: read the states of a group that is stopped, and write them for one that has none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupIdNotFound, KafkaError
from aiokafka.structs import OffsetAndMetadata

from stream_guard.errors import SettingsError, SourceError, StoreError
from stream_guard.kafka.address import Address
from stream_guard.kafka.client import NAME, choose_servers
from stream_guard.settings import Settings
from stream_guard.worker.assembly import rekeyed_topic, spanning_topic
from stream_guard.worker.changelog import ChangelogTable, EpochFence, LoggedRow
from stream_guard.worker.kafka.app import changelog_topic
from stream_guard.worker.kafka.changelog import KafkaChangelog
from stream_guard.worker.kafka.clients import connect, login_options, make_consumer
from stream_guard.worker.kafka.topics import RETRY, TopicDescription, count_partitions, describe_topics, make_topics
from stream_guard.worker.rows import (
    KEY_STATES,
    SESSIONS,
    VERSION,
    decode_progress,
    import_key,
    known_topics,
    progress_key,
    topic_tag,
)
from stream_guard.worker.savepoint import (
    FORMAT,
    SavedRow,
    SavedTopic,
    SavepointFile,
    SavepointHeader,
    TargetTopic,
    move_states,
    write_savepoint,
)

PIECE: Final = 5000  # rows that are written at a time


async def export_states(address: Address, settings: Settings, path: Path) -> SavepointHeader:
    """Write the states of a group to a file; StoreError when it runs, or has none."""
    async with _open_group(address, settings) as group:
        await group.refuse_members("stop them, and export then")
        described = await group.describe([group.changelog])
        if group.changelog not in described:
            raise StoreError(
                f"the group {settings.worker.group} has no states: there is no topic {group.changelog}; name the group "
                "of the workers with --group, and their brokers in the address"
            )
        partitions = described[group.changelog].partitions
        rows, ends = await group.read_rows(partitions)
        if any(import_key(number) in held for number, held in rows.items()):
            raise StoreError(
                f"the import of states into {group.changelog} has not finished; import the same file again"
            )
        topics = await group.find_topics(rows, partitions)
        _, now = await group.find_range(group.changelog, partitions)
        if now != ends or await group.count_members():
            raise StoreError(
                f"workers of the group {settings.worker.group} were started meanwhile; stop them, and export again"
            )
        header = SavepointHeader(FORMAT, VERSION, settings.worker.group, partitions, topics, ends, time.time())
        write_savepoint(
            path, header, (SavedRow(number, key, value) for number in rows for key, value in rows[number].items())
        )
        return header


@dataclass(frozen=True, slots=True)
class ImportedStates:
    """What an import has written."""

    rows: int
    partitions: int
    header: SavepointHeader


async def import_states(address: Address, settings: Settings, path: Path) -> ImportedStates:
    """Write the states of a file for a group that has none; nothing is written before all of it was checked."""
    saved = SavepointFile(path)
    async with _open_group(address, settings) as group:
        await group.refuse_members("stop them, and import then")
        partitions = await count_partitions(
            group.producer, address.topics, group.changelog, patience=settings.kafka.patience
        )
        await group.refuse_states(address.topics, partitions, saved.digest)
        rows: dict[int, dict[bytes, bytes]] = {number: {} for number in range(saved.header.partitions)}
        for row in saved.rows():
            rows[row.partition][row.key] = row.value
        targets = await group.describe_targets(address.topics)
        try:
            moved = move_states(saved.header, rows, targets)
        except msgspec.MsgspecError as error:
            raise StoreError(f"{path}: a row was written by another version: {error}; import it with that") from None
        await make_topics(group.producer, list(group.servers), settings, group.changelog, (), partitions)
        await group.write_rows(moved, saved.digest.encode())
        await group.commit(
            {
                TopicPartition(topic.name, number): offset
                for topic in saved.header.topics
                if topic.name in targets and targets[topic.name].topic_id == topic.topic_id
                for number, offset in enumerate(topic.next_offsets)
            }
        )
        await group.finish(partitions)
        return ImportedStates(sum(map(len, moved.values())), partitions, saved.header)


class _StoppedGroup:
    """A group of workers that is asked about, read and written while none of its workers runs."""

    def __init__(self, settings: Settings, servers: Sequence[str], producer: Any, consumer: Any, admin: Any) -> None:
        self._settings = settings
        self.name = settings.worker.group
        self.changelog = changelog_topic(settings)
        self.servers = servers
        self.producer = producer
        self._consumer = consumer
        self._admin = admin
        self._log = KafkaChangelog(self.changelog, producer, lambda: consumer)

    async def describe(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Return the topics that exist."""
        return await describe_topics(self.producer.client, topics, patience=self._settings.kafka.patience)

    async def count_members(self) -> int:
        """Return how many workers the brokers count as members."""
        try:
            answers = await self._ask(lambda: self._admin.describe_consumer_groups([self.name]))
        except GroupIdNotFound:
            return 0
        return sum(len(group[5]) for answer in answers for group in answer.groups)

    async def find_offsets(self, listed: Sequence[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return how far the group has read partitions; -1 where it has not."""
        found: Mapping[TopicPartition, OffsetAndMetadata] = await self._ask(
            lambda: self._admin.list_consumer_group_offsets(self.name, partitions=list(listed))
        )
        return found

    async def _ask(self, question: Callable[[], Awaitable[Any]]) -> Any:
        """Ask the broker that keeps the group, for at most ``kafka.patience``: a new cluster has none for a moment."""
        end = time.monotonic() + self._settings.kafka.patience
        while True:
            try:
                return await question()
            except KafkaError as error:
                if not error.retriable or time.monotonic() > end:
                    raise
            await asyncio.sleep(RETRY)

    async def refuse_members(self, what: str) -> None:
        """Raise StoreError while workers run."""
        if members := await self.count_members():
            raise StoreError(
                f"the group {self.name} is running, with {members} workers; {what}. One that was killed counts for "
                f"worker.session_timeout ({self._settings.worker.session_timeout:g} s)"
            )

    async def find_range(self, topic: str, partitions: int) -> tuple[list[int], list[int]]:
        """Return where the partitions of a topic begin, and where they end."""
        listed = [TopicPartition(topic, number) for number in range(partitions)]
        first, last = await self._consumer.beginning_offsets(listed), await self._consumer.end_offsets(listed)
        return [first[one] for one in listed], [last[one] for one in listed]

    async def read_rows(self, partitions: int) -> tuple[dict[int, dict[bytes, bytes]], list[int]]:
        """Return the rows that count, by partition, and where the changelog ends."""
        table = ChangelogTable(self._log, EpochFence())
        begins, ends = await self.find_range(self.changelog, partitions)
        for number in range(partitions):
            async for records in self._read(TopicPartition(self.changelog, number), begins[number], ends[number]):
                table.load(number, (LoggedRow(one.offset, one.key, one.value, one.headers) for one in records))
        return {number: dict(table.recovered(number)) for number in range(partitions)}, ends

    async def _read(self, partition: TopicPartition, start: int, end: int) -> AsyncIterator[Sequence[Any]]:
        consumer = self._consumer
        consumer.assign([partition])
        consumer.seek(partition, start)
        while start < end:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                yield [record for record in records if record.offset < end]
            start = await consumer.position(partition)

    async def find_topics(self, rows: Mapping[int, Mapping[bytes, bytes]], partitions: int) -> list[SavedTopic]:
        """Return the topics that the group has read, and how far."""
        known = {number: known_topics(held, number) for number, held in rows.items()}
        names = sorted({name for topics in known.values() for name in topics})
        described = await self.describe(names)
        return [await self._find_topic(name, described[name], rows, partitions) for name in names if name in described]

    async def _find_topic(
        self, name: str, described: TopicDescription, rows: Mapping[int, Mapping[bytes, bytes]], partitions: int
    ) -> SavedTopic:
        begins, ends = await self.find_range(name, partitions)
        is_own = name in (rekeyed_topic(self.name), spanning_topic(self.name))
        next_offsets, unread = list[int](), list[int]()
        for number in range(partitions):
            applied = _applied(rows[number], number, name)
            committed = await self.find_offsets([TopicPartition(name, number)])
            offset = max((one.offset for one in committed.values()), default=-1) if applied is None else applied + 1
            next_offsets.append(max(offset, 0))
            start = max(offset, begins[number])
            async for records in self._read(TopicPartition(name, number), start, ends[number]):
                # What is left may be the markers of transactions. And how far clocks have come, of which workers tell
                # each other to the end, has no key, and is told again.
                if any(record.key is not None or not is_own for record in records):
                    unread.append(number)
                    break
        return SavedTopic(name, described.topic_id.hex(), next_offsets, ends, unread)

    async def refuse_states(self, topics: Sequence[str], partitions: int, digest: str) -> None:
        """Raise StoreError for a group that has states, or has read the topics; an unfinished import may go on."""
        if self.changelog in await self.describe([self.changelog]):
            rows, ends = await self.read_rows(partitions)
            unfinished = {held[import_key(number)] for number, held in rows.items() if import_key(number) in held}
            if unfinished == {digest.encode()}:
                return
            if unfinished:
                raise StoreError(
                    f"the import of another file into the group {self.name} has not finished; finish that one, or "
                    f"delete the topic {self.changelog} and import then"
                )
            if any(ends):
                raise StoreError(
                    f"the group {self.name} has states already; import into another group (--group), or delete the "
                    f"topic {self.changelog} if nobody needs them"
                )
        listed = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
        committed = await self.find_offsets(listed)
        if read := sorted({one.topic for one, found in committed.items() if found.offset >= 0}):
            raise StoreError(
                f"the group {self.name} has read {', '.join(read)} before, and would skip what it has read; import "
                "into another group (--group)"
            )

    async def describe_targets(self, topics: Sequence[str]) -> dict[str, TargetTopic]:
        """Return the topics that the group will read."""
        described = await self.describe(topics)
        return {
            topic: TargetTopic(
                described[topic].topic_id.hex(), (await self.find_range(topic, described[topic].partitions))[1]
            )
            for topic in topics
        }

    async def write_rows(self, rows: Mapping[int, Mapping[bytes, bytes]], digest: bytes) -> None:
        """Write the rows; until ``finish``, no worker begins with them."""
        for number in rows:
            await self._log.append(number, [(import_key(number), digest)], [])
        for number, held in rows.items():
            changes = list(held.items())
            for start in range(0, len(changes), PIECE):
                await self._log.append(number, changes[start : start + PIECE], [])

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Have the group go on at these offsets."""
        if not offsets:
            return
        consumer = make_consumer(self.servers, self._settings.kafka, group=self.name)
        await consumer.start()
        try:
            consumer.assign(list(offsets))
            await consumer.commit({one: OffsetAndMetadata(offset, "") for one, offset in offsets.items()})
        finally:
            await consumer.stop()

    async def finish(self, partitions: int) -> None:
        """Let workers begin."""
        for number in range(partitions):
            await self._log.append(number, [(import_key(number), None)], [])


def _applied(rows: Mapping[bytes, bytes], number: int, topic: str) -> int | None:
    """Return the last offset of a topic that is in the states of a partition; None when none has any."""
    known = known_topics(rows, number).get(topic)
    tag = topic_tag(topic, known.incarnation if known else 0)
    found = [
        decode_progress(raw).applied.get(tag)
        for family in (SESSIONS, KEY_STATES)
        if (raw := rows.get(progress_key(number, family))) is not None
    ]
    return max((offset for offset in found if offset is not None), default=None)


@asynccontextmanager
async def _open_group(address: Address, settings: Settings) -> AsyncIterator[_StoppedGroup]:
    if address.options:
        raise SettingsError(f"{address}: states have no option {', '.join(address.options)}; leave it out")
    servers = choose_servers(address.servers, settings.kafka)
    producer = await connect(servers, settings)
    consumer = make_consumer(servers, settings.kafka)
    admin = AIOKafkaAdminClient(bootstrap_servers=list(servers), client_id=NAME, **login_options(settings.kafka))
    try:
        await consumer.start()
        await admin.start()
        yield _StoppedGroup(settings, servers, producer, consumer, admin)
    except KafkaError as error:
        raise SourceError(
            f"{','.join(servers)}: {error!r}; look at the brokers and the rights, and try again"
        ) from error
    finally:
        await admin.close()
        await consumer.stop()
        await producer.stop()
