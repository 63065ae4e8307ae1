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
from stream_guard.worker.stages import Stages
from stream_guard.worker.store import Change

TABLE: Final = "sessions"
COMMIT_SECONDS: Final = 1.0


class WorkerApp(faust.App):
    """A Faust app without agents: its consumer gives what it fetches to the judge."""

    folders: TemporaryDirectory[str]  # gone with the app
    stages: Stages
    claim: Callable[[Iterable[int]], Awaitable[None]]  # given by the table's rows
    put_back: Callable[[Iterable[Any]], None]  # likewise

    def __init__(self, *args: Any, **options: Any) -> None:
        self.fence = EpochFence()
        super().__init__(*args, **options)

    limit: int  # bytes of a record that are read

    def _new_transport(self) -> BatchTransport:
        return BatchTransport(self.conf.broker_consumer, self)

    def _new_consumer(self) -> Any:
        consumer: Any = super()._new_consumer()
        consumer.judge, consumer.limit = self.stages, self.limit
        consumer.fence, consumer.claim, consumer.put_back = self.fence, self.claim, self.put_back
        return consumer

    @property
    def batches(self) -> BatchConsumer:
        """The consumer, as what it is."""
        consumer = self.consumer
        if not isinstance(consumer, BatchConsumer):
            raise TypeError(f"the consumer is a {type(consumer).__name__}")
        return consumer


def make_app(settings: Settings, servers: Sequence[str], partitions: int) -> WorkerApp:
    """Return the app of a worker on topics that have that number of partitions; ``read_topics`` names them."""
    worker = settings.worker
    # Faust makes folders for stores on disk. There are none, so they go where nobody has to sweep.
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
    """Let the app read the topics of its stages."""
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


class TableRows:
    """The rows of the app's table, written to its changelog by a producer that waits for the broker.

    The partition is said with each row: Faust would take it from the event it thinks it is working on.
    """

    def __init__(self, app: WorkerApp, producer: Any) -> None:
        self._table: Any = app.tables[TABLE]  # its interface leaves out what is needed here
        self._producer = producer
        self._fence = app.fence
        app.claim, app.put_back = self.claim, self.put_back

    async def claim(self, partitions: Iterable[int]) -> None:
        """Become the owner of partitions whose rows have been recovered; no row of another counts from here on.

        Where one that does not count is the last of its key, what counts is written again: the broker may forget all
        but the last.
        """
        rows = self.recovered()
        changes = {}
        for partition in partitions:
            again = sorted(self._fence.take(partition))
            changes[partition] = [(owner_key(partition), b"\x01"), *((key, rows.get(key)) for key in again)]
        await self.write(changes)

    def recovered(self) -> Mapping[bytes, bytes]:
        """Return the rows as they are now."""
        rows: Mapping[bytes, bytes] = self._table.data.data
        return rows

    async def write(self, changes: Mapping[int, Sequence[Change]]) -> None:
        """Send the rows in their order, wait for all acknowledgements, then show them."""
        await asyncio.gather(*(self._send(partition, listed) for partition, listed in changes.items()))
        for partition, listed in changes.items():
            for key, value in listed:
                self._show(partition, key, value)

    def put_back(self, records: Iterable[Any]) -> None:
        """Show rows that were read from the changelog, in their order."""
        for record in records:
            self._show(record.partition, record.key, record.value)

    def _show(self, partition: int, key: bytes, value: bytes | None) -> None:
        store = self._table.data
        if value is None:
            store.data.pop(key, None)
            store._key_partition.pop(key, None)  # noqa: SLF001  # where Faust looks for rows that left
        else:
            store.data[key] = value
            store._key_partition[key] = partition  # noqa: SLF001  # as above

    async def _send(self, partition: int, changes: Sequence[Change]) -> None:
        """Write a partition's rows; the next lot goes out when the one before is safe, for the last row proves all.

        In lots made here: the client makes a future for every row that is sent by itself.
        """
        topic, producer, mark = self._table.changelog_topic_name, self._producer, self._fence.mark(partition)
        lot = producer.create_batch()
        for key, value in changes:
            if lot.append(key=key, value=value, timestamp=None, headers=mark) is None:
                await (await producer.send_batch(lot, topic, partition=partition))
                lot = producer.create_batch()
                lot.append(key=key, value=value, timestamp=None, headers=mark)  # the first one fits, whatever its size
        lot.close()
        await (await producer.send_batch(lot, topic, partition=partition))
