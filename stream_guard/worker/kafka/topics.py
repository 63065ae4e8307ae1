"""The topics of a worker: what the brokers know of them, those that a group makes for itself, and writing to them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, Final, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidReplicationFactorError,
    KafkaError,
    NodeNotReadyError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from stream_guard.errors import SettingsError, SourceError
from stream_guard.kafka.address import Address
from stream_guard.kafka.client import NAME
from stream_guard.kafka.writer import Outgoing
from stream_guard.observability.steady_clock import steady_time
from stream_guard.settings import Settings
from stream_guard.worker.kafka.clients import login_options
from stream_guard.worker.rows import ROOM, most_bytes, topic_tag

# What the brokers know of topics: their ids, and how many partitions they have.
#
# A topic that is deleted and made anew has the same name and another id. The client asks for metadata in a version that
# has no ids yet, so the request is defined here.

RETRY: Final = 0.3  # seconds between two requests


class TopicDescription(NamedTuple):
    """A topic that exists."""

    topic_id: bytes  # empty when the broker has no ids
    partitions: int


class _Uuid(AbstractType[bytes]):  # type: ignore[misc]  # the client ships no types
    """Sixteen bytes."""

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: BytesIO) -> bytes:
        return data.read(16)


_NAME = CompactString("utf-8")
_BROKER = (("node_id", Int32), ("host", _NAME), ("port", Int32), ("rack", _NAME), ("tags", TaggedFields))
_PARTITION = (
    ("error_code", Int16),
    ("partition", Int32),
    ("leader", Int32),
    ("leader_epoch", Int32),
    ("replicas", CompactArray(Int32)),
    ("isr", CompactArray(Int32)),
    ("offline", CompactArray(Int32)),
    ("tags", TaggedFields),
)
_TOPIC = (
    ("error_code", Int16),
    ("name", _NAME),
    ("topic_id", _Uuid),
    ("is_internal", Boolean),
    ("partitions", CompactArray(*_PARTITION)),
    ("authorized_operations", Int32),
    ("tags", TaggedFields),
)


class _IdsResponse(Response):  # type: ignore[misc]  # as above
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", CompactArray(*_BROKER)),
        ("cluster_id", _NAME),
        ("controller_id", Int32),
        ("topics", CompactArray(*_TOPIC)),
        ("tags", TaggedFields),
    )


class _IdsRequestStruct(RequestStruct):  # type: ignore[misc]  # as above
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 12
    RESPONSE_TYPE = _IdsResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", _Uuid), ("name", _NAME), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class _IdsRequest(Request[_IdsRequestStruct]):  # type: ignore[misc]  # as above
    """Metadata with the ids of topics, which brokers have since version 3.0."""

    API_KEY = 3

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_IdsRequestStruct]) -> _IdsRequestStruct:
        return request_struct_class([(bytes(16), name, {}) for name in self._topics], False, False, {})


async def describe_topics(client: Any, names: Sequence[str], *, patience: float = 0.0) -> dict[str, TopicDescription]:
    """Return the topics that exist, of those named; KafkaError when no broker says so within the patience."""
    end = time.monotonic() + patience
    while True:
        try:
            return await _describe(client, sorted(names))
        except NotImplementedError:  # a broker from before version 3.0
            return await _describe_without_ids(client, names)
        except KafkaError as error:
            # A broker that has just died is asked until the others are known to be all.
            if not error.retriable or time.monotonic() >= end:
                raise
            await asyncio.sleep(RETRY)
            await client.force_metadata_update()


async def _describe(client: Any, names: Sequence[str]) -> dict[str, TopicDescription]:
    response = await client.send(client.get_random_node(), _IdsRequest(names))
    found = {}
    for code, name, topic_id, _, partitions, *_ in response.topics:
        error = for_code(code)
        if error is NoError:
            found[name] = TopicDescription(bytes(topic_id), len(partitions))
        elif error is not UnknownTopicOrPartitionError:
            raise error(name)
    return found


async def _describe_without_ids(client: Any, names: Sequence[str]) -> dict[str, TopicDescription]:
    if not await client.force_metadata_update():
        raise KafkaError("no broker answers")
    counts = {name: len(client.cluster.partitions_for_topic(name) or ()) for name in names}
    return {name: TopicDescription(b"", count) for name, count in counts.items() if count}


def partitions_differ(counts: Mapping[str, int]) -> SettingsError:
    """Return the error for topics whose numbers of partitions differ."""
    found = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
    return SettingsError(
        f"the topics of a worker need the same number of partitions: {found}. A topic that gets more partitions places "
        "sessions elsewhere, away from their states: move these with `stream-guard state export` and `state import` "
        "(docs/savepoints.md), or start the workers with another --group, which judges the topic from its first record "
        "on; alerts that were sent already have the same ids"
    )


# Rows of an owner that was frozen are found, and the right ones written again, before compaction removes those.
COMPACTION_LAG_MS: Final = 600_000
# For so long a deleted row can be read: a copy that was not read for an hour is made anew.
DELETE_RETENTION_MS: Final = 86_400_000
LIMIT: Final = "max.message.bytes"
_OF_THE_TOPIC: Final = 1  # the source of a setting that was made for one topic

_logger = logging.getLogger(__name__)


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
        if admin._client.cluster.controller is None:  # noqa: SLF001  # its questions would fail on that
            raise NodeNotReadyError("no broker has registered")
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
        refused = for_code(code)
        if refused not in (NoError, TopicAlreadyExistsError):
            # Of brokers that are starting, some have registered already, and others not yet.
            few = refused is InvalidReplicationFactorError
            raise SourceError(
                f"the topic {name} cannot be made: {refused.__name__} {reason}; make it, with {wanted[name]}"
            ) from (NodeNotReadyError() if few else refused())


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
        sending = (send_in_order(self._producer, self.topic, number, listed) for number, listed in records.items())
        await asyncio.gather(*sending)


async def send_in_order(
    producer: Any,
    topic: str,
    partition: int,
    records: Iterable[tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes]]]],
) -> list[range]:
    """Write records to a partition; return the offsets of each batch when the broker has acknowledged all.

    Each batch waits for the one before: the last record proves all others. The batches are built here: the client would
    create a future for each single record.
    """
    written, batch, now = list[range](), producer.create_batch(), round(steady_time() * 1000)

    async def send() -> None:
        batch.close()
        sent = await (await producer.send_batch(batch, topic, partition=partition))
        written.append(range(sent.offset, sent.offset + batch.record_count()))

    for key, value, headers in records:
        fields = {"key": key, "value": value, "timestamp": now, "headers": list(headers)}
        if batch.append(**fields) is None:
            await send()
            batch = producer.create_batch()
            batch.append(**fields)  # an empty batch takes a record of any size
    if batch.record_count():
        await send()
    return written
