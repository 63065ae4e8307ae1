"""Queues of sinks: nothing is sent twice without need, floods are summed up, and no sink holds up another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event

import msgspec

import stream_guard as sg
from stream_guard.alerting.delivery import Delivery
from stream_guard.alerting.outbox import AlertOutbox
from stream_guard.alerting.queues import QueueLimits, SinkQueue
from stream_guard.alerting.routes import AlertRoute
from stream_guard.errors import StoreError
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Severity
from stream_guard.testing import alert
from tests.unit.alerting.queued import AWAY, REFUSED, Board, Receiver, World, many


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
        world.outbox.connection().set_progress_handler(count, 100)
        queue.step()
        world.outbox.connection().set_progress_handler(None, 0)
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
