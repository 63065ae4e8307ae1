"""The Faust app of a worker: the group, the assignment, and the table with its changelog."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Final

import faust
from aiokafka.errors import KafkaError
from faust.types import TP

from stream_guard.errors import StoreError
from stream_guard.settings import Settings
from stream_guard.worker.changelog import ChangelogTable, EpochFence
from stream_guard.worker.kafka.changelog import ChangelogFollower, KafkaChangelog, TableStore
from stream_guard.worker.kafka.clients import faust_credentials, make_consumer
from stream_guard.worker.kafka.consumer import BatchConsumer, BatchTransport
from stream_guard.worker.kafka.sharing import SharingAssignor
from stream_guard.worker.stages import TopicPartition, TopicRouter

TABLE: Final = "sessions"
COMMIT_SECONDS: Final = 1.0
# Of one partition. A poll takes one partition after the other: the more there is of each, the fewer of its sessions are
# open where a batch ends, and only those are written. Four times the client's default, and a third of the rows.
FETCH_BYTES: Final = 4 << 20
MEASURE: Final = 60.0  # seconds between two looks at how many bytes the states have


class WorkerApp(faust.App):
    """A Faust app without agents: its consumer gives fetched batches to the stages."""

    folders: TemporaryDirectory[str]  # removed with the app
    stages: TopicRouter
    limit: int  # bytes; a longer record is cut
    topic_patience: float  # seconds that a topic which the leader does not know is waited for
    rows: ChangelogTable
    follower: ChangelogFollower
    copies: int  # of each partition, with other workers
    client: Any  # asks the brokers about topics
    sources: Collection[str]  # the topics of the address; the others are the group's own
    accept_gaps: bool  # a topic that was made anew may be read
    _measure_at = 0.0
    _state_bytes = 0

    def _new_transport(self) -> BatchTransport:
        return BatchTransport(self.conf.broker_consumer, self)

    def _new_consumer(self) -> Any:
        consumer: Any = super()._new_consumer()
        consumer.stages, consumer.limit, consumer.table = self.stages, self.limit, self.rows
        consumer.follower, consumer.copies = self.follower, self.copies
        consumer.client, consumer.sources, consumer.accept_gaps = self.client, self.sources, self.accept_gaps
        consumer.fence_patience, consumer.topic_patience = self.conf.broker_session_timeout, self.topic_patience
        return consumer

    def measure_states(self) -> int:
        """Return how many bytes the rows of this worker have; looked up now and then, because that counts them."""
        now = time.monotonic()
        if now >= self._measure_at:
            self._measure_at = now + MEASURE
            self._state_bytes = self.rows.size()
        return self._state_bytes

    async def find_ends(self, sources: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Ask the brokers where partitions end; nothing when they do not answer."""
        try:
            ends = await self.batch_consumer.highwaters(*(TP(*source) for source in sources))
        except (KafkaError, TimeoutError):
            return {}
        return {TopicPartition(*tp): end for tp, end in ends.items()}

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
    try:
        folders = TemporaryDirectory(prefix="stream_guard-")
    except OSError as error:
        raise StoreError(
            f"no folder for temporary files can be made: {error.strerror}; make room on the disk, or let TMPDIR name a "
            "folder that the worker may write to, and start it again"
        ) from error
    app = WorkerApp(
        worker.group,
        datadir=folders.name,
        broker=";".join(f"kafka://{server}" for server in servers),
        broker_credentials=faust_credentials(settings.kafka),
        broker_client_id="stream-guard",
        broker_commit_interval=COMMIT_SECONDS,
        broker_session_timeout=worker.session_timeout,
        broker_heartbeat_interval=min(3.0, worker.session_timeout / 4),
        broker_rebalance_timeout=max(30.0, worker.session_timeout),
        broker_request_timeout=max(90.0, worker.session_timeout + 10),  # joining may take a session's time
        broker_max_poll_records=worker.poll_records,
        consumer_max_fetch_size=FETCH_BYTES,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=worker.instance or None,
        processing_guarantee="at_least_once",
        PartitionAssignor=SharingAssignor,
        store="memory://",
        stream_wait_empty=True,
        stream_recovery_delay=0.0,
        table_standby_replicas=0,  # copies are kept beside the group: earlier versions would take theirs for their own
        topic_allow_declare=False,  # the topics exist: make_topics has made those of the group
        topic_disable_leader=True,
        topic_partitions=partitions,
        web_enabled=False,
        autodiscover=False,
    )
    app.folders = folders
    app.limit, app.topic_patience = settings.decode.max_record_bytes, settings.kafka.patience
    app.copies = worker.copies
    app.Table(TABLE, partitions=partitions, key_type=bytes, value_type=bytes)
    return app


def open_table(app: WorkerApp, settings: Settings, servers: Sequence[str], producer: Any) -> None:
    """Give the app its rows. A producer writes them to the changelog and waits for the broker."""
    topic, make = changelog_topic(settings), partial(make_consumer, servers, settings.kafka)
    app.rows = ChangelogTable(KafkaChangelog(topic, producer, make), EpochFence())
    app.follower = ChangelogFollower(topic, app.rows, make)
    table: Any = app.tables[TABLE]  # Faust's interface leaves out what is used here
    table._data = store = TableStore("memory:", app, table)  # noqa: SLF001  # before it makes one of its own
    store.rows = app.rows


def changelog_topic(settings: Settings) -> str:
    """Return the name of the topic with the rows."""
    return f"{settings.worker.group}-{TABLE}-changelog"
