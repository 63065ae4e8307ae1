"""Time, silence and limits: when sessions end, when deadlines fire, and what is let go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.errors import DecodeError
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore
from stream_guard.testing import events, rule_spec


class Pending(sg.State):
    """When the answer is due."""

    due: float | None = None
    asked: int = 0


class AnswerWithin(sg.Rule[sg.Params, Pending]):
    """An `ask` is followed by an `answer` within 60 seconds, and a session asks at least once."""

    kind = "answer_within"

    def needs(self) -> frozenset[sg.Need]:
        return frozenset(("clock",))

    def on_tool_call(self, call: sg.ToolCall, state: Pending) -> None:
        if call.tool == "ask" and call.time is not None:
            state.due, state.asked = call.time + 60, state.asked + 1
        elif call.tool == "answer":
            state.due = None

    def deadline(self, state: Pending) -> float | None:
        return state.due

    def on_deadline(self, time: float, state: Pending) -> sg.Hit:
        state.due = None
        return sg.Hit(f"no answer by {time:g}")

    def on_session_end(self, end: sg.SessionEnd, state: Pending) -> sg.Hit | None:
        return sg.Hit(f"end {end.reason} at {end.time}, asked {state.asked}")


class Calls(sg.State):
    tools: str = ""


class Order(sg.Rule[sg.Params, Calls]):
    """Says at the end which tools were called, in their order."""

    kind = "order"

    def on_tool_call(self, call: sg.ToolCall, state: Calls) -> sg.Hit | None:
        state.tools += call.tool
        return None

    def on_session_end(self, end: sg.SessionEnd, state: Calls) -> sg.Hit | None:
        return sg.Hit(state.tools)


class Table:
    """A session table with one rule, fed in shorthand."""

    def __init__(self, *, shared_clock: bool = True, late: float = 0.0, limits: SessionLimits | None = None) -> None:
        policy = Policy(rules=(rule_spec(AnswerWithin, {}),), version="t", idle=1800, max_out_of_orderness=late)
        self.counts, self.store, self.policy = Counts(), MemoryStore(), policy
        self.table = Judge(
            policy, limits, mode="stream" if shared_clock else "batch", store=self.store, counts=self.counts
        )
        self.fed = 0

    def feed(self, trace: Iterable[dict[str, Any]]) -> list[str]:
        """Return what was said, with the session that it was said of."""
        found: list[Finding] = []
        for item in trace:
            self.fed += 1
            [event] = events([{"event_id": f"e{self.fed}", **item}], item.get("session", "s"))
            found += self.table.feed(event).findings
        return [f"{finding.session_id}: {finding.detail}" for finding in found]

    def end_all(self) -> list[str]:
        found = self.table.end()
        return [f"{finding.session_id}: {finding.detail}" for finding in found]


@pytest.mark.parametrize("shared_clock", [True, False])
def test_a_deadline_fires_before_the_event_that_passes_it(shared_clock: bool) -> None:
    table = Table(shared_clock=shared_clock)
    assert table.feed([{"call": "ask", "at": 100}, {"call": "answer", "at": 160}]) == ["s: no answer by 160"]


@pytest.mark.parametrize("shared_clock", [True, False])
def test_an_answer_in_time_is_silent(shared_clock: bool) -> None:
    table = Table(shared_clock=shared_clock)
    assert table.feed([{"call": "ask", "at": 100}, {"call": "answer", "at": 159.9}, {"call": "x", "at": 500}]) == []


def test_a_deadline_fires_in_a_silent_session_when_another_moves_the_clock() -> None:
    table = Table()
    assert table.feed([{"call": "ask", "at": 100}, {"call": "x", "at": 170, "session": "other"}]) == [
        "s: no answer by 160"
    ]


def test_without_a_shared_clock_another_session_moves_nothing() -> None:
    table = Table(shared_clock=False)
    assert table.feed([{"call": "ask", "at": 100}, {"call": "x", "at": 9e6, "session": "other"}]) == []
    assert table.end_all() == [
        "other: end end_of_input at 9001800.0, asked 0",
        "s: no answer by 160",
        "s: end end_of_input at 1900.0, asked 1",
    ]


def test_a_session_that_runs_behind_keeps_its_own_distance_to_the_clock() -> None:
    table = Table()
    table.feed([{"call": "x", "at": 10_000, "session": "ahead"}])
    behind = [{"call": "ask", "at": 100, "session": "behind"}, {"call": "x", "at": 10_030, "session": "ahead"}]
    assert table.feed([*behind, {"call": "answer", "at": 130, "session": "behind"}]) == []
    assert table.feed([{"call": "ask", "at": 140, "session": "behind"}]) == []
    assert table.feed([{"call": "x", "at": 10_095, "session": "ahead"}]) == ["behind: no answer by 200"]


@pytest.mark.parametrize("shared_clock", [True, False])
def test_a_gap_of_the_idle_time_ends_the_session_and_begins_another(shared_clock: bool) -> None:
    table = Table(shared_clock=shared_clock)
    said = table.feed([{"call": "ask", "at": 0}, {"call": "answer", "at": 1}, {"call": "x", "at": 1801}])
    # Where no other clock stands behind a pause, the next event of the session or the end of the input does.
    closed, ended = "s: end idle at 1801.0, asked 1", "s: end end_of_input at 3601.0, asked 0"
    assert said == ([closed] if shared_clock else [])
    assert table.end_all() == ([ended] if shared_clock else [closed, ended])


@pytest.mark.parametrize("shared_clock", [True, False])
def test_just_under_the_idle_time_is_still_the_same_session(shared_clock: bool) -> None:
    assert Table(shared_clock=shared_clock).feed([{"call": "x", "at": 0}, {"call": "x", "at": 1799.9}]) == []


def test_a_silent_session_is_closed_by_the_clock_of_the_others() -> None:
    table = Table()
    assert table.feed([{"call": "x", "at": 0}, {"call": "y", "at": 1800, "session": "o"}]) == [
        "s: end idle at 1800.0, asked 0"
    ]
    assert table.counts.sessions == 1


def test_a_clock_that_runs_backwards_is_counted_and_judged() -> None:
    table = Table(shared_clock=False)
    table.feed([{"call": "x", "at": 500}, {"call": "ask", "at": 100}])
    assert table.counts.late_events == 1
    assert table.end_all() == ["s: no answer by 160", "s: end end_of_input at 2300.0, asked 1"]


def test_an_explicit_end_closes_the_session_at_once() -> None:
    table = Table()
    assert table.feed([{"call": "x", "at": 5}, {"end": "closed", "at": 6}]) == ["s: end closed at 6.0, asked 0"]
    assert table.counts.sessions == 0


def test_events_within_the_allowed_lateness_are_put_in_order() -> None:
    table = Table(late=5)
    trace = [{"call": "ask", "at": 100}, {"call": "answer", "at": 163}, {"call": "answer", "at": 159}]
    assert table.feed([*trace, {"call": "x", "at": 200}]) == []
    assert table.counts.late_events == 0


def test_what_is_buffered_is_judged_when_the_session_ends() -> None:
    table = Table(late=5)
    assert table.feed([{"call": "ask", "at": 100}, {"call": "x", "at": 101}]) == []
    assert table.end_all()[-1] == "s: end end_of_input at 1901.0, asked 1"


def test_buffered_events_are_released_by_the_clock_of_the_others() -> None:
    table = Table(late=5)
    said = table.feed([{"call": "ask", "at": 100}, {"call": "x", "at": 400, "session": "o"}])
    assert said == ["s: no answer by 160"]


def test_buffered_events_survive_a_restart() -> None:
    table = Table(late=5)
    table.feed([{"call": "ask", "at": 100}])
    table.table.commit()
    again = Judge(table.policy, store=table.store, counts=table.counts)
    found: list[Finding] = []
    found += again.end()
    assert [finding.detail for finding in found] == ["no answer by 160", "end end_of_input at 1900.0, asked 1"]


def test_deadlines_survive_a_restart() -> None:
    table = Table()
    table.feed([{"call": "ask", "at": 100}])
    table.table.commit()
    again = Judge(table.policy, mode="stream", store=table.store, counts=table.counts)
    found: list[Finding] = []
    found += again.advance(160)
    assert [finding.detail for finding in found] == ["no answer by 160"]


def test_too_many_sessions_close_the_longest_idle_one() -> None:
    table = Table(limits=SessionLimits(max_live=2))
    said = table.feed({"call": "x", "at": n, "session": f"s{n}"} for n in range(4))
    assert said == ["s0: end idle at 0.0, asked 0", "s1: end idle at 1.0, asked 0"]
    assert (table.counts.evictions["sessions"], table.counts.sessions) == (2, 2)


def test_sessions_beyond_what_memory_may_hold_are_packed_and_come_back() -> None:
    table = Table(limits=SessionLimits(in_memory=1), shared_clock=False)
    table.feed({"call": "ask", "at": 10, "session": f"s{n}"} for n in range(5))
    table.table.commit()
    assert table.feed([{"call": "ask", "at": 11, "session": "s0"}]) == []
    assert "s0: end end_of_input at 1811.0, asked 2" in table.end_all()


def test_room_is_made_for_new_sessions_and_changes_no_verdict() -> None:
    limits = SessionLimits(in_memory=32)
    table, free = Table(limits=limits, shared_clock=False), Table(shared_clock=False)
    said, said_freely, stored = list[str](), list[str](), list[int]()
    for at in range(300):
        name = f"s{at % 80 if at % 3 else at % 7}"  # some are there always, the others come back after they have left
        item = {"call": "answer" if at % 5 == 0 else "ask", "at": at * 7, "session": name}
        said += table.feed([item])
        said_freely += free.feed([item])
        table.table.make_room()
        stored.append(sum(1 for _ in table.store.deadlines()))
        assert table.counts.sessions - stored[-1] <= limits.in_memory
    assert (said, table.end_all()) == (said_freely, free.end_all())
    assert any("no answer" in line for line in said)
    assert stored[-1] > limits.in_memory  # or nothing was tried


def test_no_more_leave_than_make_room_for_some_new_ones() -> None:
    table = Table(limits=SessionLimits(in_memory=32), shared_clock=False)
    for number in range(33):
        table.feed([{"call": "ask", "at": 10, "session": f"s{number:02d}"}])
        table.table.make_room()
    assert [name for name, _ in table.store.deadlines()] == ["s00", "s01", "s02"]


@pytest.mark.parametrize("session_id", ["", "\x00agent\x00x"])
def test_an_event_that_can_belong_to_no_session_is_refused(session_id: str) -> None:
    with pytest.raises(DecodeError, match="session_id"):
        Table().table.feed(ToolCall(session_id=session_id, tool="x"))


def test_the_duplicate_window_is_bounded() -> None:
    table = Table(limits=SessionLimits(duplicate_window=4))
    for name in ("a", "b", "c", "d", "e", "a"):
        table.table.feed(ToolCall(session_id="s", event_id=name, tool="x"))
    assert table.counts.duplicate_events == 0
    table.table.feed(ToolCall(session_id="s", event_id="e", tool="x"))
    assert table.counts.duplicate_events == 1


def test_a_restart_forgets_no_event_id() -> None:
    table = Table(limits=SessionLimits(duplicate_window=4))
    for name in ("a", "b", "c", "c"):
        table.table.feed(ToolCall(session_id="s", event_id=name, tool="x"))
        table.table.commit()
        table.table = Judge(table.policy, table.table.limits, mode="stream", store=table.store, counts=table.counts)
    table.table.feed(ToolCall(session_id="s", event_id="a", tool="x"))
    assert table.counts.duplicate_events == 2


@pytest.mark.parametrize("restarts", [False, True])
def test_an_event_without_a_time_stays_behind_the_buffered_ones_before_it(restarts: bool) -> None:
    policy = Policy(rules=(rule_spec(Order, {}),), version="t", idle=1800, max_out_of_orderness=5.0)
    store, counts, found = MemoryStore(), Counts(), list[Finding]()
    trace: list[dict[str, Any]] = [
        {"call": "a", "at": 100},
        {"call": "b"},
        {"call": "c", "at": 100},
        {"call": "d"},
        {"call": "e", "at": 102},
    ]
    table = Judge(policy, store=store, counts=counts)
    for event in events(trace, "s"):
        found += table.feed(event).findings
        if restarts:
            table.commit()
            table = Judge(policy, store=store, counts=counts)
    found += table.end()
    assert [finding.detail for finding in found] == ["abcde"]
