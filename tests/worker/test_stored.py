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
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stream_guard.alerting.delivery import Delivery
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Alert
from stream_guard.observability.steady_clock import SteadyClock
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import Settings, load_settings
from stream_guard.worker.assembly import Health, WorkerParts, build_stages
from stream_guard.worker.changelog import EpochFence
from stream_guard.worker.kafka.topics import KafkaOutbox
from stream_guard.worker.rows import KEY_STATES, SESSIONS, RowChange, progress_key, session_prefix, waiting_prefix
from stream_guard.worker.stages import TopicPartition, TopicRouter

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

        return SimpleNamespace(append=append, close=lambda: None, held=held, record_count=lambda: len(held))

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Any:
        source = TopicPartition(topic, partition)
        log = self._topics.setdefault(source, [])
        for sent in batch.held:
            offset = log[-1].position + 1 if log else self.positions.get(source, 0)
            headers = tuple(sent["headers"])
            log.append(Record(sent["value"], f"{topic}/{partition}", offset, key=sent["key"], headers=headers))
            self.written.setdefault(source, []).append(log[-1])
        done = asyncio.get_running_loop().create_future()
        done.set_result(SimpleNamespace(offset=0))
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
        judge=Judge(load_policy(policy, registry), mode="stream", counts=counts),
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
    monkeypatch.setattr(SteadyClock, "__call__", lambda _: NOW)
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


def test_a_takeover_tells_as_much_as_the_version_before_would_have(stored: Stored, saved: dict[str, Any]) -> None:
    """Ids of alerts are others since that version (docs/upgrade.md)."""
    assert len(set(stored.alerts)) == len(set(saved["after"]["alerts"]))
    assert len(stored.alerts) == len(saved["after"]["alerts"])


def test_as_much_is_sent_between_partitions_as_the_version_before_sent(stored: Stored, saved: dict[str, Any]) -> None:
    sent = {(topic, number): count for topic, number, count, _ in saved["after"]["written"]}
    found = {(topic, number): len(stored.written.get(TopicPartition(topic, number), [])) for topic, number in sent}
    assert found == sent


def test_the_header_of_an_epoch_is_that_of_the_version_before() -> None:
    fence = EpochFence()
    fence.begin(3)
    assert fence.headers(3) == [("owner", b"\x00\x00\x00\x00\x00\x00\x00\x01")]
    assert not any(fence.admits(3, offset, b"k", [("owner", bytes(7) + b"\x01")]) for offset in _after_epoch(fence, 2))


def _after_epoch(fence: EpochFence, epoch: int) -> range:
    """Offsets behind a row of an epoch."""
    assert fence.admits(3, 0, b"k", [("owner", epoch.to_bytes(8, "big"))])
    return range(1, 3)
