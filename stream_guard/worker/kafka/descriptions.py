"""What the brokers know of topics: their ids, and how many partitions they have.

A topic that is deleted and made anew has the same name and another id. The client asks for metadata in a version that
has no ids yet, so the request is defined here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Final, NamedTuple

from aiokafka.errors import KafkaError, NoError, UnknownTopicOrPartitionError, for_code
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

from stream_guard.errors import SettingsError

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
