"""A batch is evaluated while the one before becomes durable: alerts, then dead letters, then states, then offsets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, Self

import pytest

from stream_guard.alerting.delivery import Delivery
from stream_guard.asking.desk import JudgedAlerts
from stream_guard.commit import Commit, Positions
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.demo.sessions import sample_events
from stream_guard.errors import SinkError
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Alert
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.settings import SessionLimits, Settings
from stream_guard.worker.partition import SessionPartition
from stream_guard.worker.rows import PartitionStore, RowChange, decode_session, progress_key
from stream_guard.worker.stages import BatchProcessor, FetchedBatch, TopicPartition

SOURCE = TopicPartition("events", 0)


class Table:
    """A table that acknowledges writes after a few turns of the loop."""

    def __init__(self, log: list[str]) -> None:
        self.rows: dict[bytes, bytes] = {}
        self._log = log

    def recovered(self, _partition: int) -> Mapping[bytes, bytes]:
        return self.rows

    async def write(self, changes: Mapping[int, Sequence[RowChange]]) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        for key, value in (change for listed in changes.values() for change in listed):
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self._log.append("states")


class Alerts:
    """A sink that may be closed for a while, or for good."""

    def __init__(self, log: list[str]) -> None:
        self.ids: list[str] = []
        self.gate = Event()
        self.gate.set()
        self.error: SinkError | None = None
        self.attempts = 0
        self._log = log

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        raise NotImplementedError

    def send(self, alerts: Sequence[Alert]) -> None:
        self.attempts += 1
        assert self.gate.wait(30)
        if self.error is not None:
            raise self.error
        self.ids += [alert.alert_id for alert in alerts]
        self._log.append("alerts")

    def flush(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing is held."""


class Letters(DeadLetters):
    """Dead letters that log their flushes."""

    def __init__(self, counts: Counts, log: list[str]) -> None:
        super().__init__(None, counts, format_name="native")
        self._flushes = log

    def flush(self) -> int:
        self._flushes.append(f"{self.total} letters")
        return 0


class Processing:
    """A batch processor with its surroundings, and a log of what became durable when."""

    def __init__(self, policy: Path, **limits: int) -> None:
        self.log: list[str] = []
        self.table, self.alerts, counts = Table(self.log), Alerts(self.log), Counts()
        registry, settings = build_registry(), Settings(sessions=SessionLimits(**limits))
        alerts = JudgedAlerts(Delivery({"alerts": self.alerts}, counts))
        decoder = Assembly(settings, registry).make_decoder("native")
        self.processor = BatchProcessor(
            judge=Judge(load_policy(policy, registry), mode="stream", counts=counts),
            alerts=alerts,
            commit=Commit(alerts.keep, Letters(counts, self.log)),
            rows=self.table,
            settings=settings,
            make=lambda number, rows, judge, dead_letters: SessionPartition(
                PartitionStore(number, rows), judge, decoder, dead_letters, settings.sessions, now=time.time
            ),
            observe=lambda _seconds, records: self.log.append(f"{records} durable"),
        )

    async def process(self, records: Sequence[Record]) -> None:
        def on_durable(batch: FetchedBatch) -> None:
            self.log.append(f"up to {batch[SOURCE][-1].position}")

        await self.processor.process({SOURCE: records}, on_durable)


def sample_records(sessions: int) -> list[Record]:
    events = enumerate(sample_events(sessions))
    return [Record(json.dumps(event).encode(), "events/0", offset) for offset, event in events]


def run_through(policy: Path, given: Sequence[Record], size: int, **limits: int) -> tuple[set[str], dict[bytes, bytes]]:
    """The alerts and the rows that are left after batches of one size."""
    run = Processing(policy, **limits)

    async def drive() -> None:
        for start in range(0, len(given), size):
            await run.process(given[start : start + size])
        await run.processor.flush()

    asyncio.run(drive())
    return set(run.alerts.ids), {key: row for key, row in run.table.rows.items() if key != progress_key(0)}


def test_alerts_then_letters_then_states_then_offsets(policy: Path) -> None:
    run, given = Processing(policy), [*sample_records(40), Record(b"{", "events/0", 10_000)]

    async def drive() -> None:
        await run.process(given)
        await run.processor.flush()

    asyncio.run(drive())
    assert run.log == ["alerts", "1 letters", "states", "up to 10000", f"{len(given)} durable"]


def test_the_next_batch_is_evaluated_while_alerts_are_in_flight_and_nothing_of_it_is_written(policy: Path) -> None:
    run, given = Processing(policy), sample_records(80)
    half = len(given) // 2

    async def drive() -> None:
        run.alerts.gate.clear()
        await run.process(given[:half])
        second = asyncio.ensure_future(run.process([*given[half:], Record(b"{", "events/0", len(given))]))
        end = time.monotonic() + 30
        while run.processor.counts.records < len(given):
            assert time.monotonic() < end
            await asyncio.sleep(0)
        assert (run.log, run.table.rows, second.done()) == ([], {}, False)
        run.alerts.gate.set()
        await second
        await run.processor.flush()

    asyncio.run(drive())
    first = ["alerts", "0 letters", "states", f"up to {half - 1}", f"{half} durable"]
    second = ["alerts", "1 letters", "states", f"up to {len(given)}", f"{len(given) - half + 1} durable"]
    assert run.log == [*first, *second]


@pytest.mark.parametrize("limits", [{}, {"in_memory": 1}], ids=["sessions at hand", "sessions read back"])
def test_whatever_the_batches_alerts_and_states_are_those_of_one(policy: Path, limits: dict[str, int]) -> None:
    given = sample_records(60)
    alerts, rows = run_through(policy, given, len(given))
    assert alerts
    for size in (1, 7, 100):
        found, left = run_through(policy, given, size, **limits)
        assert found == alerts
        assert {key for key, row in left.items() if _is_live(row)} == {
            key for key, row in rows.items() if _is_live(row)
        }


def test_the_error_of_a_batch_is_raised_and_nothing_of_it_is_written(policy: Path) -> None:
    run, given = Processing(policy), sample_records(40)
    run.alerts.error = SinkError("the topic is gone", retryable=False)

    async def drive() -> None:
        await run.process(given[:300])
        with pytest.raises(SinkError, match="the topic is gone"):
            await run.process(given[300:])
        with pytest.raises(SinkError, match="the topic is gone"):
            await run.processor.flush()

    asyncio.run(drive())
    assert (run.log, run.table.rows) == ([], {})


def test_a_cancelled_delivery_is_not_retried() -> None:
    counts, alerts = Counts(), Alerts([])
    alerts.error = SinkError("the broker is away", retryable=True)
    alerts.gate.clear()
    delivery = Delivery({"alerts": alerts}, counts)
    commit = Commit(delivery.deliver, Letters(counts, []), delivery.abandon)  # type: ignore[arg-type]  # no positions

    async def written(_: Positions) -> None:
        raise AssertionError("no state may be written before its alerts are out")

    async def drive() -> None:
        judged: Any = [SimpleNamespace()]
        sending = asyncio.ensure_future(commit.run_beside(judged, written, lambda _: None))
        while not alerts.attempts:  # noqa: ASYNC110  # a thread attempts it
            await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        alerts.gate.set()

    asyncio.run(drive())  # ends when the thread has ended
    assert alerts.attempts == 1
    assert counts.alerts["alerts", "failed"] == 1


def _is_live(row: bytes) -> bool:
    return bool(decode_session(row).state)
