"""The claims about what the page reads: alerts, events, tallies, verdicts, bypasses; on SQLite and on Postgres."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stream_guard.history import alert_rows, audit, bypasses, incidents, kept_events, tallies, verdicts
from stream_guard.history.alert_rows import AlertFilter
from stream_guard.history.kept_events import EventKeeper
from stream_guard.judge.model import Action, Alert, ToolCall, ToolResult
from tests.history.claims import World, call


def _alert(number: int, **fields: Any) -> Alert:
    given = {"rule_id": f"r{number % 2}", "severity": "error", "session_id": "s\0\ud800", "detail": "100% \u202e wrong"}
    return Alert(
        **{
            "alert_id": f"x{number}",
            "kind": "k",
            "event_id": f"e{number}",
            "index": 1,
            "time": 5.0,
            "policy_version": "v",
            "agent": "bot\0",
            **given,
            **fields,
        }
    )


def alerts_are_listed_by_every_filter(world: World) -> None:
    with world.database.transaction() as statements:
        for number in range(30):
            assert alert_rows.insert(statements, _alert(number), float(number))
        assert not alert_rows.insert(statements, _alert(3), 99.0)
    wanted = [
        (AlertFilter(), 30), (AlertFilter(rule="r1"), 15), (AlertFilter(severity="critical"), 0),
        (AlertFilter(severity="error", rule="r0"), 15), (AlertFilter(text="100% "), 30), (AlertFilter(text="zzz"), 0),
        (AlertFilter(session="s\0\ud800", agent="bot\0"), 30), (AlertFilter(tenant="t"), 0),
    ]  # fmt: skip
    for filters, count in wanted:
        assert len(alert_rows.page(world.database, filters, limit=100).alerts) == count, filters
    first = alert_rows.page(world.database, AlertFilter(), limit=7)
    assert [noted.number for noted in first.alerts] == [30, 29, 28, 27, 26, 25, 24]
    assert [noted.number for noted in alert_rows.since(world.database, 28)] == [29, 30]
    assert alert_rows.newest(world.database) == 30
    assert alert_rows.last_of_rules(world.database, ["r0", "r1", "never"]) == {"r0": 28.0, "r1": 29.0}
    found = alert_rows.get(world.database, "x7")
    assert found is not None
    assert found.alert.session_id == "s\0\ud800"


def events_are_kept_counted_and_forgotten(world: World) -> None:
    keeper = EventKeeper(world.connect(), clock=lambda: world.now)
    try:
        keeper.keep(ToolCall(session_id="a", tool="t\0", event_id=f"e{n}", agent="bot", time=999.0) for n in range(5))
        keeper.keep([ToolResult(session_id="a", tool="t\0", event_id="r", status="error", time=999.0)])
        keeper.flush()
        keeper.keep([ToolCall(session_id="a", tool="t\0", event_id="e0", agent="bot")])  # told again
        keeper.flush()
    finally:
        keeper.close()
    assert [kept.number for kept in kept_events.events_of(world.database, "a")] == [1, 2, 3, 4, 5, 6]
    assert kept_events.numbers_of(world.database, "a", ["e2"]) == {"e2": 3}
    assert kept_events.kinds_of(world.database, "a", [3, 6, 9]) == ["ToolCall", "ToolResult"]
    assert kept_events.kept_range(world.database, "a") == (1, 6)
    assert [session.id for _, session in kept_events.sessions(world.database)] == ["a"]
    found = tallies.series(world.database, "tool", since=0, until=world.now, bars=4)
    assert [sum(counts) for counts in found.values()] == [5]
    assert len(kept_events.replay_session(world.database, "a")) == 6


def a_verdict_takes_the_place_of_the_one_before(world: World) -> None:
    with world.database.transaction() as statements:
        alert_rows.insert(statements, _alert(1), 1.0)
    for word in verdicts.WORDS:
        verdicts.give(world.database, "x1", word, by="ada", time=2.0)
    assert verdicts.counts(world.database)["r1"] == verdicts.VerdictCounts(benign=1)
    assert [verdict.verdict for verdict in verdicts.of_rule(world.database, "r1")] == ["benign"]
    assert audit.verify(world.database).problems == ()


def a_bypass_ends_by_itself(world: World) -> None:
    gate = world.gate()
    review = gate.check(call("pay", {"n": 1})).review
    assert review is not None
    gate.reviews.bypass(review.id, bypasses.Grant(by="ada", note="a batch", seconds=60))
    assert gate.check(call("pay", {"n": 2}, call_id="c2")).action is Action.ALLOW
    assert gate.check(call("pay", {"n": "2"}, call_id="c3")).action is Action.PAUSE
    world.now += 61
    assert gate.check(call("pay", {"n": 4}, call_id="c4")).action is Action.PAUSE
    assert audit.verify(world.database).problems == ()


def incidents_come_page_by_page(world: World) -> None:
    with world.database.transaction() as statements:
        for number in range(25):
            incidents.record(statements, _alert(number, session_id=f"s{number}"), float(number // 2))
    seen: list[str] = []
    before = None
    while True:
        found, before = incidents.page(world.database, "unresolved", before, limit=4)
        seen += [incident.session_id for incident in found]
        if before is None:
            break
    assert sorted(seen) == sorted(f"s{number}" for number in range(25))
    assert incidents.page(world.database, "solved") == ([], None)


PAGE_CLAIMS: Final[tuple[Callable[[World], None], ...]] = (
    alerts_are_listed_by_every_filter,
    events_are_kept_counted_and_forgotten,
    a_verdict_takes_the_place_of_the_one_before,
    a_bypass_ends_by_itself,
    incidents_come_page_by_page,
)
