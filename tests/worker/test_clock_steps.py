"""A clock that is set while a worker runs, hours ahead or back, ends no session early and stops no deadline."""

from __future__ import annotations

import json
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from stream_guard.alerting.outbox import AlertOutbox
from stream_guard.alerting.queues import SinkQueue
from stream_guard.alerting.routes import AlertRoute
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Finding
from stream_guard.judge.spec import Policy
from stream_guard.observability.steady_clock import SteadyClock
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.testing import alert
from stream_guard.worker.changelog import STALE, ChangelogTable, EpochFence
from stream_guard.worker.partition import SessionPartition
from tests.kafka.cluster import Row
from tests.unit.alerting.queued import AWAY, Receiver
from tests.worker.disturbances import CLOCKED
from tests.worker.fleet import Fleet
from tests.worker.partitions import Rows, open_partition, write

HOUR = 3600.0
BEGAN = 1_790_000_000.0
POLICY = """
sessions: {idle: 2h}
rules:
  - {id: soon, kind: must_followup, params: {trigger: [], must: {kind: text_includes, text: done}, within_turns: 5,
     within_seconds: 3s}}
"""


class Machine:
    """A machine whose clock can be set; what measures how long something takes goes on."""

    def __init__(self) -> None:
        self.off = 0.0
        self.passed = 0.0
        self.steady = SteadyClock(self.wall, lambda: self.passed)

    def wall(self) -> float:
        return BEGAN + self.passed + self.off

    def receiver(self) -> float:
        return max(self.wall(), self.steady())


def turn(session: str, at: float, text: str = "one moment") -> dict[str, Any]:
    response = {"content": [{"type": "text", "text": text}]}
    told = {"kind": "turn", "session_id": session, "event_id": f"{session}-{at}", "time": at, "request": {}}
    return {**told, "response": response}


@pytest.fixture
def loaded() -> Policy:
    return load_policy(POLICY, build_registry())


def open_on(machine: Machine, rows: Rows, policy: Policy) -> SessionPartition:
    return open_partition(rows, policy, "native", now=machine.steady, receiver=machine.receiver)


def fold(partition: SessionPartition, number: int, told: dict[str, Any]) -> list[Finding]:
    found: list[Finding] = []
    partition.fold("events", [Record(json.dumps(told).encode(), "events/0", number)], found)
    return found


@pytest.mark.parametrize("off", [5 * HOUR, -5 * HOUR, 400 * 24 * HOUR, -400 * 24 * HOUR])
@pytest.mark.parametrize("reopened", [False, True], ids=["in memory", "opened again from its rows"])
def test_a_step_ends_no_session_early_and_the_time_that_passes_ends_it(
    loaded: Policy, off: float, *, reopened: bool
) -> None:
    machine, rows, found = Machine(), Rows(), list[Finding]()
    partition = open_on(machine, rows, loaded)
    fold(partition, 0, turn("s", machine.wall(), "done"))
    fold(partition, 1, turn("s", machine.wall(), "one moment"))
    write(rows, partition.snapshot())
    for step in (off, 0.0, off):
        machine.off = step
        if reopened:  # partitions were handed out anew
            write(rows, partition.snapshot())
            partition = open_on(machine, rows, loaded)
        machine.passed += 0.5
        partition.tick(0.0, found)
    assert not found
    assert partition.watermark < BEGAN + 10
    machine.passed += 5.0
    partition.tick(0.0, found)
    assert [one.rule_id for one in found] == ["soon"], "the deadline of three seconds is over"
    machine.passed += 3 * HOUR
    assert partition.tick(0.0, found), "and so is the session"


@pytest.mark.parametrize("off", [5 * HOUR, -5 * HOUR])
def test_events_that_are_stamped_right_move_the_clock_after_a_step(loaded: Policy, off: float) -> None:
    machine, rows = Machine(), Rows()
    partition = open_on(machine, rows, loaded)
    fold(partition, 0, turn("s", BEGAN))
    machine.off = off
    machine.passed = 60.0
    assert [one.rule_id for one in fold(partition, 1, turn("t", BEGAN + 60.0, "done"))] == ["soon"]
    assert partition.watermark == BEGAN + 60.0


@pytest.mark.parametrize("ahead", [HOUR, 24 * HOUR])
def test_a_successor_whose_clock_is_behind_goes_on_at_once(loaded: Policy, ahead: float) -> None:
    machine, rows, found = Machine(), Rows(), list[Finding]()
    partition = open_on(machine, rows, loaded)
    fold(partition, 0, turn("s", BEGAN))
    write(rows, partition.snapshot())
    other = Machine()
    other.off = -ahead
    other.steady = SteadyClock(other.wall, lambda: other.passed)
    successor = open_on(other, rows, loaded)
    other.passed = 5.0
    successor.tick(0.0, found)
    assert [one.rule_id for one in found] == ["soon"]


def test_what_a_worker_knows_of_copies_goes_by_the_time_that_passes() -> None:
    machine = Machine()
    table = ChangelogTable(None, EpochFence(), machine.steady)  # type: ignore[arg-type]  # nothing is written
    table.note_complete(0, 5)
    for off in (5 * HOUR, -5 * HOUR):
        machine.off = off
        assert table.ready() == {0}
        assert not table.has_lost_touch(0)
    machine.passed = STALE + 1
    assert not table.ready()
    assert table.has_lost_touch(0)


def test_an_alert_that_waits_for_its_sink_goes_out_although_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox, sink = AlertOutbox(tmp_path / "outbox.db"), Receiver()
    queue = SinkQueue("there", sink, AlertRoute(), outbox, Counts())
    real = time.time
    outbox.put([("there", alert(1), "waiting")], queue._clock())
    monkeypatch.setattr(time, "time", lambda: real() - 5 * HOUR)
    queue.step()
    assert len(sink.taken) == 1
    outbox.close()


def test_an_alert_that_was_put_off_is_tried_again_at_the_next_start(tmp_path: Path) -> None:
    def refuse(_: object) -> None:
        raise AWAY

    now = [BEGAN]
    outbox, sink = AlertOutbox(tmp_path / "outbox.db"), Receiver(refuse)
    queue = SinkQueue("there", sink, AlertRoute(), outbox, Counts(), clock=lambda: now[0])
    outbox.put([("there", alert(1), "waiting")], now[0])
    queue.step()
    now[0] -= 5 * HOUR  # the machine is started again, with a clock that is behind
    sent = Event()
    sink.behave = lambda _: sent.set()
    again = SinkQueue("there", sink, AlertRoute(), outbox, Counts(), clock=lambda: now[0])
    again.start()
    assert sent.wait(60), "not only when it ends"
    again.end()
    assert again.join(60)
    outbox.close()


@pytest.mark.kafka
def test_a_worker_whose_clock_is_set_ahead_and_back_fires_deadlines_in_time(
    fleet: Fleet, policy: Path, tmp_path: Path
) -> None:
    policy.write_text(POLICY)
    clock = tmp_path / "clock"
    clock.write_text("0")
    process = {"launcher": (str(CLOCKED),), "env": {"CLOCK": str(clock)}}

    def tell(session: str, text: str = "one moment") -> None:
        told = json.dumps(turn(session, time.time(), text)).encode()
        fleet.cluster.fill(fleet.events, [Row(told, b"k", partition=0)])

    def found() -> set[str]:
        return {alert["data"]["session_id"] for alert in fleet.sent()}

    name = fleet.start(process=process, worker__idle_grace="1s")
    tell("kept", "done")
    fleet.wait_for(1)
    for number, off in enumerate((5 * HOUR, -5 * HOUR, 0.0)):
        clock.write_text(str(off))
        tell(f"late-{number}")
        fleet.wait_until(lambda wanted=f"late-{number}": wanted in found())  # type: ignore[misc]
    assert {"kept", "late-0"} <= fleet.sessions().keys(), "no session was ended"
    fleet.stop(name)
