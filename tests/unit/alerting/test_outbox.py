"""The outbox and its queues: nothing is lost, nothing is sent twice without need, and no sink holds up another."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event

import msgspec
import pytest

import stream_guard as sg
from stream_guard.alerting.delivery import Delivery
from stream_guard.alerting.outbox import AlertOutbox
from stream_guard.alerting.queues import QueueLimits, SinkQueue
from stream_guard.alerting.routes import AlertRoute
from stream_guard.errors import StoreError
from stream_guard.model import Severity
from stream_guard.observability.counts import Counts
from stream_guard.testing import alert

AWAY = sg.SinkError("away", retryable=True)
REFUSED = sg.SinkError("refused", retryable=False)


class Receiver:
    """A sink that does as it is told by a function of the alerts, and remembers what it took."""

    def __init__(self, behave: Callable[[Sequence[sg.Alert]], None] = lambda _: None) -> None:
        self.behave = behave
        self.taken: list[sg.Alert] = []
        self.tries = 0

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: object = None) -> Receiver:
        raise NotImplementedError

    def send(self, alerts: Sequence[sg.Alert]) -> None:
        self.tries += 1
        self.behave(alerts)
        self.taken += alerts

    def flush(self) -> int:
        return 0

    def close(self) -> None:
        pass

    @property
    def ids(self) -> list[str]:
        return [one.alert_id for one in self.taken]


class Board(Receiver):
    """A receiver that shows alerts until it is told that they are over."""

    resend = 60.0
    resolve_after = 3600.0

    def __init__(self) -> None:
        super().__init__()
        self.over: list[str] = []

    def resolve(self, alerts: Sequence[sg.Alert]) -> None:
        self.over += [one.alert_id for one in alerts]


class World:
    """An outbox, a clock that is moved by hand, and queues that are stepped by hand."""

    def __init__(self, path: Path) -> None:
        self.now = 1_000_000.0
        self.outbox = AlertOutbox(path)
        self.counts = Counts()

    def clock(self) -> float:
        return self.now

    def queue(self, sink: Receiver, route: AlertRoute | None = None, **options: object) -> SinkQueue:
        return SinkQueue(
            "there",
            sink,
            route or AlertRoute(),
            self.outbox,
            self.counts,
            clock=self.clock,
            **options,  # type: ignore[arg-type]  # as the caller says
        )

    def put(self, queue: SinkQueue, *alerts: sg.Alert) -> None:
        self.outbox.put([(queue.name, one, state) for one, state in queue.floods.sort(alerts)], self.now)

    def run(self, queue: SinkQueue, seconds: float = 0.0, steps: int = 10_000) -> None:
        """Step until nothing is left to do before the time is over."""
        until = self.now + seconds
        for _ in range(steps):
            pause = queue.step()
            if self.now + pause > until:
                self.now = until
                return
            self.now += pause
        raise AssertionError("the queue never rests")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "outbox.db")
    yield made
    made.outbox.close()


def many(number: int, **fields: object) -> list[sg.Alert]:
    return [msgspec.structs.replace(alert(one), **fields) for one in range(number)]


def test_a_sink_that_is_down_for_ten_minutes_loses_nothing_and_is_not_pestered(world: World) -> None:
    began = world.now

    def down(_: Sequence[sg.Alert]) -> None:
        if world.now < began + 600:
            raise AWAY

    sink = Receiver(down)
    queue = world.queue(sink)
    world.put(queue, *many(250))
    world.run(queue, 599)
    assert not sink.taken
    assert 10 <= sink.tries <= 60  # doubled pauses with jitter, a minute at most
    assert world.counts.outbox["there", "waiting"] == 250
    world.run(queue, 120)
    assert sorted(sink.ids) == sorted(one.alert_id for one in many(250))
    assert world.counts.alerts["there", "ok"] == 250


def test_an_alert_that_is_refused_is_a_dead_letter_and_the_others_arrive(world: World) -> None:
    bad = alert(37).alert_id

    def refuse(alerts: Sequence[sg.Alert]) -> None:
        if bad in [one.alert_id for one in alerts]:
            raise REFUSED

    sink = Receiver(refuse)
    queue = world.queue(sink)
    world.put(queue, *many(100))
    world.run(queue)
    assert len(sink.ids) == len(set(sink.ids)) == 99
    [dead] = world.outbox.listing("dead")
    assert (dead.alert.alert_id, dead.problem) == (bad, "refused")
    assert world.counts.alerts["there", "rejected"] == 1
    sink.behave = lambda _: None
    assert world.outbox.retry("there", world.now) == 1
    world.run(queue)
    assert bad in sink.ids


def test_an_alert_that_always_fails_does_not_hold_up_the_queue_and_is_given_up_in_the_end(world: World) -> None:
    bad = alert(0).alert_id

    def fail(alerts: Sequence[sg.Alert]) -> None:
        if bad in [one.alert_id for one in alerts]:
            raise AWAY

    sink = Receiver(fail)
    queue = world.queue(sink, limits=QueueLimits(give_up=3600))
    world.put(queue, *many(50))
    world.run(queue, 120)
    assert len(sink.taken) == 49
    world.run(queue, 7200)
    assert [row.alert.alert_id for row in world.outbox.listing("dead")] == [bad]
    assert world.counts.alerts["there", "failed"] == 1


def test_a_receiver_that_asks_for_a_pause_gets_it(world: World) -> None:
    answers = iter([sg.SinkError("busy", retryable=True, retry_after=120)])

    def busy(_: Sequence[sg.Alert]) -> None:
        for error in answers:
            raise error

    sink = Receiver(busy)
    queue = world.queue(sink)
    world.put(queue, alert(1))
    world.run(queue, 119)
    assert sink.tries == 1
    world.run(queue, 2)
    assert len(sink.taken) == 1


def test_whatever_a_plugin_raises_the_alert_waits(world: World) -> None:
    def stumble(_: Sequence[sg.Alert]) -> None:
        raise KeyError("x")

    sink = Receiver(stumble)
    queue = world.queue(sink)
    world.put(queue, alert(1))
    world.run(queue, 10)
    sink.behave = lambda _: None
    world.run(queue, 60)
    assert len(sink.taken) == 1


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


def test_a_flood_is_summed_up_and_every_alert_is_accounted_for(world: World) -> None:
    sink = Receiver()
    queue = world.queue(sink, AlertRoute(flood=100, flood_window=60))
    alerts = many(10_000)
    for start in range(0, 10_000, 500):
        world.put(queue, *alerts[start : start + 500])
        world.run(queue, 2.9)
    world.run(queue, 65)
    singles = [one for one in sink.taken if one.kind != "stream_guard_summary"]
    summaries = [one for one in sink.taken if one.kind == "stream_guard_summary"]
    assert len(singles) == 100
    assert 1 <= len(summaries) <= 2
    assert sum(one.suppressed for one in summaries) == 9_900
    assert all(one.rule_id == alert(1).rule_id for one in summaries)
    kept = {row.alert.alert_id for row in world.outbox.listing("summed", most=20_000)}
    assert kept | {one.alert_id for one in singles} == {one.alert_id for one in alerts}
    assert world.counts.alerts["there", "summed"] == 9_900


def test_what_a_queue_does_for_an_alert_does_not_grow_with_what_is_held_back(world: World) -> None:
    queue = world.queue(Receiver(), AlertRoute(flood=1, flood_window=60))
    steps: list[int] = []  # of SQLite's machine, in hundreds

    def count() -> int:
        steps.append(1)
        return 0  # go on

    def work_of_a_step() -> int:
        world.now += 1e-6  # not long enough to count rows for the metrics
        world.outbox._connection().set_progress_handler(count, 100)
        queue.step()
        world.outbox._connection().set_progress_handler(None, 0)
        return len(steps)

    world.put(queue, *many(500))
    world.run(queue)
    few = work_of_a_step()
    world.put(queue, *many(10_000))
    steps.clear()
    assert work_of_a_step() <= few + 5


def test_what_is_held_back_does_not_wake_its_queue_each_time(tmp_path: Path) -> None:
    counts, outbox = Counts(), AlertOutbox(tmp_path / "outbox.db")
    steps: list[int] = []

    class Counted(SinkQueue):
        def step(self) -> float:
            steps.append(1)
            return super().step()

    queue = Counted("x", Receiver(), AlertRoute(flood=5), outbox, counts)
    delivery = Delivery({}, counts, outbox=outbox, queues=[queue])
    for one in many(400):
        delivery.keep([one])
    assert outbox.depths("x")["held"] == 395
    assert len(steps) < 60  # five that are sent, the first that is held, and a look now and then
    delivery.close()
    assert counts.alerts["x", "summed"] == 395


def test_a_flood_of_one_rule_or_tenant_hides_no_other(world: World) -> None:
    sink = Receiver()
    queue = world.queue(sink, AlertRoute(flood=2))
    loud = many(50, labels={"tenant": "acme"})
    other_tenant = msgspec.structs.replace(alert(60), labels={"tenant": "globex"})
    other_rule = msgspec.structs.replace(alert(61), rule_id="another", labels={"tenant": "acme"})
    world.put(queue, *loud, other_tenant, other_rule)
    world.run(queue)
    assert {other_tenant.alert_id, other_rule.alert_id} < set(sink.ids)
    assert len(sink.taken) == 4


def test_a_digest_is_one_message_for_each_tenant_and_period(world: World) -> None:
    sink = Receiver()
    queue = world.queue(sink, AlertRoute(digest=900))
    world.put(queue, *many(5, labels={"tenant": "acme"}, severity="warning"))
    world.put(queue, msgspec.structs.replace(alert(9), labels={"tenant": "globex"}, severity="critical"))
    world.run(queue, 890)
    assert not sink.taken
    world.run(queue, 20)
    assert sorted((one.labels["tenant"], one.suppressed, one.severity) for one in sink.taken) == [
        ("acme", 5, "warning"),
        ("globex", 1, "critical"),
    ]


def test_a_route_takes_what_it_asks_for(world: World) -> None:
    route = AlertRoute(
        severity=Severity.ERROR,
        rules=None,
        labels={"team": "pay"},
        tenants=frozenset({"acme"}),
    )
    fitting = msgspec.structs.replace(alert(1), severity="critical", labels={"team": "pay", "tenant": "acme"})
    assert route.accepts(fitting)
    for change in (
        {"severity": "warning"},
        {"labels": {"team": "chat", "tenant": "acme"}},
        {"labels": {"team": "pay", "tenant": "globex"}},
        {"labels": {"team": "pay"}},
    ):
        assert not route.accepts(msgspec.structs.replace(fitting, **change))
    assert route.accepts(msgspec.structs.replace(fitting, severity="catastrophic"))  # unknown: nobody should miss it


def test_a_receiver_is_reminded_of_what_lasts_and_told_when_it_is_solved_or_over(world: World) -> None:
    board, solved = Board(), set[str]()
    queue = world.queue(board, is_solved=lambda alerts: solved & {one.alert_id for one in alerts})
    first, second = (msgspec.structs.replace(alert(number), session_id=f"s{number}") for number in (1, 2))
    world.put(queue, first, second)
    world.run(queue, 130)
    assert board.ids.count(first.alert_id) == 3  # sent, and two reminders
    solved.add(first.alert_id)
    world.run(queue, 70)
    assert board.over == [first.alert_id]
    reminders = board.ids.count(first.alert_id)
    world.run(queue, 3700)
    assert board.over == [first.alert_id, second.alert_id]
    assert board.ids.count(first.alert_id) == reminders
    assert world.counts.outbox["there", "active"] == 0


def test_of_one_rule_and_session_only_the_latest_alert_lasts(world: World) -> None:
    board = Board()
    queue = world.queue(board)
    world.put(queue, *many(5, session_id="s"))
    world.run(queue)
    assert [row.alert.alert_id for row in world.outbox.listing("active")] == [alert(4).alert_id]


def test_a_slow_sink_holds_up_neither_the_caller_nor_another_sink(tmp_path: Path) -> None:
    released, arrived, counts = Event(), Event(), Counts()

    def wait(_: Sequence[sg.Alert]) -> None:
        released.wait(30)

    slow, quick = Receiver(wait), Receiver(lambda _: arrived.set())
    outbox = AlertOutbox(tmp_path / "outbox.db")
    queues = [SinkQueue(name, sink, AlertRoute(), outbox, counts) for name, sink in (("slow", slow), ("quick", quick))]
    delivery = Delivery({}, counts, outbox=outbox, queues=queues, drain=20)
    delivery.deliver([alert(1)])
    assert arrived.wait(20)
    assert not slow.taken
    released.set()
    delivery.close()
    assert len(slow.taken) == len(quick.taken) == 1


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
    with world.outbox._transaction() as db:
        db.execute("UPDATE outbox SET body = x'00' WHERE number = 1")
    world.run(queue)
    assert sink.ids == [alert(2).alert_id]
    assert "row 1 for there cannot be read" in caplog.text


def test_a_history_that_is_away_holds_up_no_alert(world: World) -> None:
    def away(_: Sequence[sg.Alert]) -> set[str]:
        raise StoreError("the history is away")

    board = Board()
    queue = world.queue(board, is_solved=away)
    world.put(queue, alert(1))
    world.run(queue, 130)
    world.put(queue, alert(2))
    world.run(queue, 130)
    assert board.ids.count(alert(2).alert_id) >= 2


def test_counters_of_a_sink_begin_at_nought(world: World) -> None:
    world.queue(Receiver())
    assert world.counts.alerts["there", "rejected"] == 0
    assert ("there", "rejected") in world.counts.alerts
