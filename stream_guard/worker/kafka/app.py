"""The Faust app of a worker: the group, the assignment, and the table with its changelog."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, Final

import faust

from stream_guard.kafka.client import security_options
from stream_guard.settings import Settings
from stream_guard.worker.epoch import EpochFence
from stream_guard.worker.kafka.consumer import BatchConsumer, BatchTransport
from stream_guard.worker.rows import owner_key
from stream_guard.worker.stages import TopicRouter
from stream_guard.worker.store import RowChange

TABLE: Final = "sessions"
COMMIT_SECONDS: Final = 1.0


class WorkerApp(faust.App):
    """A Faust app without agents: its consumer gives fetched batches to the stages."""

    folders: TemporaryDirectory[str]  # removed with the app
    stages: TopicRouter
    limit: int  # bytes; a longer record is cut
    begin_epochs: Callable[[Iterable[int]], Awaitable[None]]  # set by ChangelogTable
    load_rows: Callable[[Iterable[Any]], None]  # set by ChangelogTable

    def __init__(self, *args: Any, **options: Any) -> None:
        self.fence = EpochFence()
        super().__init__(*args, **options)

    def _new_transport(self) -> BatchTransport:
        return BatchTransport(self.conf.broker_consumer, self)

    def _new_consumer(self) -> Any:
        consumer: Any = super()._new_consumer()
        consumer.stages, consumer.limit, consumer.fence = self.stages, self.limit, self.fence
        consumer.begin_epochs, consumer.load_rows = self.begin_epochs, self.load_rows
        return consumer

    @property
    def batch_consumer(self) -> BatchConsumer:
        """The consumer, with its own type."""
        consumer = self.consumer
        if not isinstance(consumer, BatchConsumer):
            raise TypeError(f"the consumer is a {type(consumer).__name__}")
        return consumer


def make_app(settings: Settings, servers: Sequence[str], partitions: int) -> WorkerApp:
    """Return the app of a worker. Its topics, named later by ``read_topics``, have that number of partitions."""
    worker = settings.worker
    # Faust creates folders for stores on disk. Ours are in memory, so the folders are temporary.
    folders = TemporaryDirectory(prefix="stream_guard-")
    app = WorkerApp(
        worker.group,
        datadir=folders.name,
        broker=";".join(f"kafka://{server}" for server in servers),
        broker_credentials=_credentials(settings),
        broker_client_id="stream-guard",
        broker_commit_interval=COMMIT_SECONDS,
        broker_session_timeout=worker.session_timeout,
        broker_heartbeat_interval=min(3.0, worker.session_timeout / 4),
        broker_rebalance_timeout=max(30.0, worker.session_timeout),
        broker_max_poll_records=worker.poll_records,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=worker.instance or None,
        processing_guarantee="at_least_once",
        store="memory://",
        stream_wait_empty=True,
        stream_recovery_delay=0.0,
        table_standby_replicas=0,
        topic_disable_leader=True,
        topic_partitions=partitions,
        topic_replication_factor=worker.replication_factor,
        web_enabled=False,
        autodiscover=False,
    )
    app.folders = folders
    app.limit = settings.decode.max_record_bytes
    app.Table(TABLE, partitions=partitions, key_type=bytes, value_type=bytes)
    return app


def read_topics(app: WorkerApp) -> None:
    """Subscribe the app to the topics of its stages."""
    app.topics.add(app.topic(*app.stages.topics, key_type=bytes, value_type=bytes))


def _credentials(settings: Settings) -> Any:
    options = security_options(settings.kafka)
    context = options.get("ssl_context")
    if "sasl_mechanism" in options:
        return faust.SASLCredentials(
            username=options["sasl_plain_username"],
            password=options["sasl_plain_password"],
            mechanism=options["sasl_mechanism"],
            ssl_context=context,
        )
    return None if context is None else faust.SSLCredentials(context=context)


class ChangelogTable:
    """The rows of the app's table. A producer writes them to the changelog and waits for the broker.

    Each write names its partition: Faust would take it from the event that it is working on.
    """

    def __init__(self, app: WorkerApp, producer: Any) -> None:
        self._table: Any = app.tables[TABLE]  # Faust's interface leaves out what is used here
        self._producer = producer
        self._fence = app.fence
        app.begin_epochs, app.load_rows = self.begin_epochs, self.load_rows

    async def begin_epochs(self, partitions: Iterable[int]) -> None:
        """Become the owner of partitions whose rows are recovered: rows of other owners no longer count.

        A row that does not count may be the last of its key. The row that counts is then written again, because
        compaction keeps only the last.
        """
        rows = self.recovered()
        changes = {}
        for partition in partitions:
            stale = sorted(self._fence.begin(partition))
            changes[partition] = [(owner_key(partition), b"\x01"), *((key, rows.get(key)) for key in stale)]
        await self.write(changes)

    def recovered(self) -> Mapping[bytes, bytes]:
        """Return the current rows of all partitions."""
        rows: Mapping[bytes, bytes] = self._table.data.data
        return rows

    async def write(self, changes: Mapping[int, Sequence[RowChange]]) -> None:
        """Write the changes of each partition in their order, wait for all acknowledgements, then set the rows."""
        await asyncio.gather(*(self._send(partition, listed) for partition, listed in changes.items()))
        for partition, listed in changes.items():
            for key, value in listed:
                self._set(partition, key, value)

    def load_rows(self, records: Iterable[Any]) -> None:
        """Set rows that were read from the changelog, in their order."""
        for record in records:
            self._set(record.partition, record.key, record.value)

    def _set(self, partition: int, key: bytes, value: bytes | None) -> None:
        store = self._table.data
        if value is None:
            store.data.pop(key, None)
            store._key_partition.pop(key, None)  # noqa: SLF001  # where Faust finds the rows of a revoked partition
        else:
            store.data[key] = value
            store._key_partition[key] = partition  # noqa: SLF001  # as above

    async def _send(self, partition: int, changes: Sequence[RowChange]) -> None:
        """Write the rows of a partition. Each batch waits for the one before: the last row proves all others.

        The batches are built here: the client would create a future for each single row.
        """
        topic, producer, headers = self._table.changelog_topic_name, self._producer, self._fence.headers(partition)
        batch = producer.create_batch()
        for key, value in changes:
            if batch.append(key=key, value=value, timestamp=None, headers=headers) is None:
                await (await producer.send_batch(batch, topic, partition=partition))
                batch = producer.create_batch()
                batch.append(key=key, value=value, timestamp=None, headers=headers)  # takes a row of any size
        batch.close()
        await (await producer.send_batch(batch, topic, partition=partition))
