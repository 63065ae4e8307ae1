"""The outbox on the disk: nothing that was put is lost, whatever ends."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

import stream_guard as sg
from stream_guard.alerting.delivery import Delivery
from stream_guard.alerting.outbox import AlertOutbox
from stream_guard.alerting.queues import QueueLimits, SinkQueue
from stream_guard.alerting.routes import AlertRoute
from stream_guard.errors import StoreError
from stream_guard.judge.counts import Counts
from stream_guard.testing import alert
from tests.unit.alerting.queued import AWAY, Receiver, World, many


def test_an_alert_is_not_queued_again_while_its_id_is_kept(world: World) -> None:
    sink = Receiver()
    queue = world.queue(sink, limits=QueueLimits(keep=1000))
    for _ in range(3):
        world.put(queue, alert(1))
        world.run(queue)
    assert len(sink.taken) == 1
    world.run(queue, 3000)
    world.put(queue, alert(1))
    world.run(queue)
    assert len(sink.taken) == 2


def test_what_a_dead_sink_did_not_take_is_sent_by_the_next_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Sequence[sg.Alert]) -> None:
        raise AWAY

    path, counts = tmp_path / "outbox.db", Counts()
    for sink in (Receiver(fail), Receiver()):
        outbox = AlertOutbox(path)
        with caplog.at_level(logging.WARNING):
            delivery = Delivery({}, counts, outbox=outbox, queues=[SinkQueue("x", sink, AlertRoute(), outbox, counts)])
            delivery.deliver([alert(1)])
            delivery.close()
    assert "1 alerts for x wait" in caplog.text
    assert sink.ids == [alert(1).alert_id]


def test_what_was_put_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    child = os.fork()
    if not child:
        AlertOutbox(path).put([("x", one, "waiting") for one in many(20)], 1.0)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    left = AlertOutbox(path)
    assert [row.alert for row in left.take("x", "waiting", 100)] == many(20)
    left.close()


def test_odd_alerts_come_back_from_the_disk(world: World) -> None:
    odd = msgspec.structs.replace(
        alert(1), session_id="\ud800", evidence={"n": float("nan"), "big": 2**80}, tags=("a",), detail="\ud83d"
    )
    world.outbox.put([("x", odd, "waiting")], 1.0)
    [row] = world.outbox.take("x", "waiting", 1)
    assert row.alert.alert_id == odd.alert_id
    assert row.alert.tags == ("a",)
    assert row.alert.evidence["big"] == 2**80


def test_a_second_process_is_refused_and_one_that_only_looks_is_not(world: World) -> None:
    with pytest.raises(StoreError, match="another process sends from this outbox; stop it"):
        AlertOutbox(world.outbox.path)
    AlertOutbox(world.outbox.path, shared=True).close()


def test_another_database_is_left_alone(tmp_path: Path) -> None:
    from stream_guard.storage.stores import CheckpointStore

    CheckpointStore(tmp_path / "progress.db").close()
    with pytest.raises(StoreError, match="not an outbox"):
        AlertOutbox(tmp_path / "progress.db")


def test_a_full_outbox_makes_room_of_what_was_sent_and_then_refuses(tmp_path: Path) -> None:
    outbox = AlertOutbox(tmp_path / "outbox.db", max_bytes=200_000)
    outbox.put([("x", one, "waiting") for one in many(400)], 1.0)
    outbox.finish(outbox.take("x", "waiting", 400), "summed")
    fill = [[("x", alert(1000 + start * 100 + one), "waiting") for one in range(100)] for start in range(20)]
    with pytest.raises(StoreError, match=r"fill the outbox.*outbox list"):
        all(outbox.put(part, 1.0) for part in fill)  # type: ignore[arg-type]  # the state is one of its words
    assert not outbox.listing("summed")
    outbox.close()


def test_secrets_in_ids_do_not_leave(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" * 3
    counts, sink = Counts(), Receiver()
    outbox = AlertOutbox(tmp_path / "outbox.db")
    delivery = Delivery({}, counts, outbox=outbox, queues=[SinkQueue("x", sink, AlertRoute(), outbox, counts)])
    delivery.deliver([msgspec.structs.replace(alert(1), session_id=f"run {secret}", agent=secret)])
    delivery.close()
    assert len(sink.taken) == 1
    assert secret not in repr(sink.taken)
    assert secret.encode() not in (tmp_path / "outbox.db").read_bytes()


def test_a_row_that_holds_no_alert_any_more_is_set_aside(world: World, caplog: pytest.LogCaptureFixture) -> None:
    sink = Receiver()
    queue = world.queue(sink)
    world.put(queue, alert(1), alert(2))
    with world.outbox.write() as db:
        db.execute("UPDATE outbox SET body = x'00' WHERE number = 1")
    world.run(queue)
    assert sink.ids == [alert(2).alert_id]
    assert "row 1 for there cannot be read" in caplog.text
