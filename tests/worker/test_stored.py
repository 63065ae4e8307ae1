"""A worker of this version takes over from the version before: it reads its rows and topics, and writes the same.

``tests/golden/stored/worker.json`` was written by the version before the worker's modules moved. It has the table and
the unread records of all topics at a crash; then the alerts, the rows and the messages of that version after a restart.
"""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stream_guard.alerting.delivery import Delivery
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.judge.counts import Counts
from stream_guard.judge.fold import Engine
from stream_guard.judge.model import Alert
from stream_guard.judge.stored import StoredSession
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import Settings, load_settings
from stream_guard.worker.assembly import WorkerParts, build_stages
from stream_guard.worker.epoch import EpochFence
from stream_guard.worker.fetched_records import TopicPartition
from stream_guard.worker.health import Health
from stream_guard.worker.kafka.topics import KafkaOutbox
from stream_guard.worker.rows import KEY_STATES, SESSIONS, progress_key, session_prefix, waiting_prefix
from stream_guard.worker.stages import TopicRouter
from stream_guard.worker.store import RowChange

TOPICS = ("events", "g-rekeyed", "g-spanning")
BATCH = 6
# Fields that the version before has; it ignores what follows them.
SESSION_FIELDS, CALL_FIELDS, PROGRESS_FIELDS, SENDER_FIELDS, CLOCK_FIELDS = 24, 8, 6, 3, 3
CLOCK = 2  # the tag of a clock among the messages between partitions
NEW_EVENT_FIELDS = {"asked", "contested", "counts_as", "handed"}  # that the version before ignores
NOW = 1_767_700_000.0  # the wall time that the rows have


def encode(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def decode(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


class Stored:
    """The topics and the table as the version before left them, and what is written to them."""

    def __init__(self, saved: dict[str, Any]) -> None:
        self.partitions: int = saved["partitions"]
        self.rows = {b64decode(key): b64decode(row) for key, row in saved["rows"]}
        self.positions = {TopicPartition(topic, number): offset for topic, number, offset in saved["positions"]}
        self.written: dict[TopicPartition, list[Record]] = {}
        self.alerts: list[str] = []
        self._topics: dict[TopicPartition, list[Record]] = {}
        for topic, number, records in saved["topics"]:
            self._topics[TopicPartition(topic, number)] = [
                Record(
                    b64decode(value),
                    f"{topic}/{number}",
                    offset,
                    key=decode(key),
                    headers=tuple((name, b64decode(content)) for name, content in headers),
                )
                for offset, key, value, headers in records
            ]

    def create_batch(self) -> Any:
        held: list[dict[str, Any]] = []

        def append(**record: Any) -> object:
            held.append(record)
            return held

        return SimpleNamespace(append=append, held=held, record_count=lambda: len(held))

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Any:
        source = TopicPartition(topic, partition)
        log = self._topics.setdefault(source, [])
        for sent in batch.held:
            offset = log[-1].position + 1 if log else self.positions.get(source, 0)
            headers = tuple(sent["headers"])
            log.append(Record(sent["value"], f"{topic}/{partition}", offset, key=sent["key"], headers=headers))
            self.written.setdefault(source, []).append(log[-1])
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def recovered(self, _partition: int) -> Mapping[bytes, bytes]:
        return self.rows

    async def write(self, changes: Mapping[int, Sequence[RowChange]]) -> None:
        for key, value in (change for listed in changes.values() for change in listed):
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def send(self, alerts: Sequence[Alert]) -> None:
        self.alerts += [alert.alert_id for alert in alerts]

    def flush(self) -> int:
        return 0

    async def process(self, worker: TopicRouter) -> None:
        """Process all topics, in the order in which the version before did."""
        moved = True
        while moved:
            moved = False
            for source in (TopicPartition(topic, number) for topic in TOPICS for number in range(self.partitions)):
                start = worker.next_offset(source)
                start = self.positions.get(source, 0) if start is None else start
                batch = [record for record in self._topics.get(source, []) if record.position >= start][:BATCH]
                if batch:
                    moved = True
                    await worker.process({source: batch}, lambda _: None)
                    await worker.flush()


def open_worker(stored: Stored, policy: Path) -> TopicRouter:
    counts, registry = Counts(), build_registry()
    parts = WorkerParts(
        engine=Engine(load_policy(policy, registry), counts, mode="stream"),
        decoder=Assembly(Settings(), registry).make_decoder("native"),
        delivery=Delivery({"stored": stored}, counts),  # type: ignore[dict-item]  # as much of a sink as is needed
        dead_letters=DeadLetters(None, counts, format_name="native"),
        # The version before let everybody end sessions for good.
        settings=load_settings(worker={"group": "g", "rekey": True}, sessions={"end_from": ["*"]}),
        health=Health(counts, patience=1.0),
        observe=lambda _seconds, _records: None,
    )
    return build_stages(parts, stored, partial(KafkaOutbox, stored), ["events"], stored.partitions)


@pytest.fixture(scope="module")
def saved(root: Path) -> dict[str, Any]:
    file = root / "tests" / "golden" / "stored" / "worker.json"
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@pytest.fixture
def stored(saved: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """What is there after a worker of this version has processed the rest."""
    monkeypatch.setattr(time, "time", lambda: NOW)
    policy = tmp_path / "policy.yaml"
    policy.write_text(saved["policy"])
    stored = Stored(saved)
    asyncio.run(stored.process(open_worker(stored, policy)))
    return stored


def test_the_fixture_has_rows_of_every_family(saved: dict[str, Any]) -> None:
    keys = {b64decode(key)[:5] for key, _ in saved["rows"]}
    for number in range(saved["partitions"]):
        progress = {progress_key(number, SESSIONS), progress_key(number, KEY_STATES)}
        assert {session_prefix(number, SESSIONS), session_prefix(number, KEY_STATES), *progress} <= keys
    assert keys & {waiting_prefix(0), waiting_prefix(1)}
    assert {topic for topic, _, records in saved["topics"] if records} == set(TOPICS)


def test_the_alerts_after_a_takeover_are_those_of_the_version_before(stored: Stored, saved: dict[str, Any]) -> None:
    assert stored.alerts == saved["after"]["alerts"]


def as_read_before(key: bytes, value: bytes) -> bytes:
    """A row as the version before reads it: without the fields that came after its last ones."""
    if key.startswith(waiting_prefix(int.from_bytes(key[:4], "big"))):
        return message_as_read_before(value)
    number = int.from_bytes(key[:4], "big")
    if key in (progress_key(number, SESSIONS), progress_key(number, KEY_STATES)):
        return progress_as_read_before(value)
    if key[4:5] not in (b"\x01", b"\x03"):  # neither a session nor a key state
        return value
    *row, state = msgspec.msgpack.decode(value, strict=False)
    if state:
        fields = msgspec.msgpack.decode(state)[:SESSION_FIELDS]
        if (
            key[4:5] == b"\x03"
        ):  # a key keeps its distance to the clock since, as a session does, and lives as much longer
            lag = StoredSession.__struct_fields__.index("lag")
            row[-1] = round(row[-1] - fields[lag], 3)
            fields[lag] = 0.0
        calls = StoredSession.__struct_fields__.index("open")
        fields[calls] = [call[:CALL_FIELDS] for call in fields[calls]]
        state = msgspec.msgpack.encode(fields)
    return msgspec.msgpack.encode([*row, state])


def progress_as_read_before(value: bytes) -> bytes:
    """How far a partition is, without what was added about senders that lag."""
    *row, senders = msgspec.msgpack.decode(value, strict=False)[:PROGRESS_FIELDS]
    return msgspec.msgpack.encode([*row, {number: sender[:SENDER_FIELDS] for number, sender in senders.items()}])


def message_as_read_before(value: bytes | None) -> bytes:
    """A message between partitions without the fields of events and clocks that the version before does not know."""
    decoded = msgspec.msgpack.decode(value or b"")
    *message, last = decoded[:CLOCK_FIELDS] if decoded[0] == CLOCK else decoded
    if isinstance(last, dict):
        last = {name: content for name, content in last.items() if name not in NEW_EVENT_FIELDS}
    return msgspec.msgpack.encode([*message, last])


def test_rows_and_messages_are_to_the_version_before_byte_for_byte_what_it_wrote(
    stored: Stored, saved: dict[str, Any]
) -> None:
    rows = sorted([encode(key), encode(as_read_before(key, value))] for key, value in stored.rows.items())
    assert digest(rows) == saved["after"]["rows"]
    for topic, number, count, expected in saved["after"]["written"]:
        records = stored.written.get(TopicPartition(topic, number), [])
        listed = [
            [
                record.position,
                encode(record.key),
                encode(record.value if topic != "g-spanning" else message_as_read_before(record.value)),
                [[name, encode(content)] for name, content in record.headers],
            ]
            for record in records
        ]
        assert (len(listed), digest(listed)) == (count, expected), f"{topic}/{number}"


def test_the_header_of_an_epoch_is_that_of_the_version_before() -> None:
    fence = EpochFence()
    fence.begin(3)
    assert fence.headers(3) == [("owner", b"\x00\x00\x00\x00\x00\x00\x00\x01")]
    assert not any(fence.admits(3, offset, b"k", [("owner", bytes(7) + b"\x01")]) for offset in _after_epoch(fence, 2))


def _after_epoch(fence: EpochFence, epoch: int) -> range:
    """Offsets behind a row of an epoch."""
    assert fence.admits(3, 0, b"k", [("owner", epoch.to_bytes(8, "big"))])
    return range(1, 3)


def digest(value: object) -> str:
    return sha256(json.dumps(value).encode()).hexdigest()
