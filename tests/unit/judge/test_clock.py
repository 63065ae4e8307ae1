"""The shared clock: who moves it, and what a session does with stamps that are not believed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.judge.clock import QUORUM, SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, Json, SessionEnd, ToolCall, Turn
from stream_guard.judge.rule import Mode
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.storage.stores import MemoryStore

WALL = 1_000_000.0
IDLE = 1800.0
REGISTRY = build_registry()

stamps = st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 2 * WALL)), max_size=40)


@given(stamps)
def test_the_clock_is_where_enough_sessions_have_been(seen: list[tuple[str, float]]) -> None:
    clock = SharedClock(lambda: WALL, quorum=QUORUM)
    for number, (session, time) in enumerate(seen):
        before = clock.now
        clock.see(session, time)
        assert clock.now >= before
        furthest: dict[str, float] = {}
        for name, passed in seen[: number + 1]:
            furthest[name] = max(passed, furthest.get(name, 0.0))
        highest = sorted(furthest.values(), reverse=True)
        assert clock.now <= (highest[QUORUM - 1] if len(highest) >= QUORUM else before)


@given(st.lists(st.floats(0, 10 * WALL), max_size=30))
def test_no_session_moves_the_clock_alone(times: list[float]) -> None:
    clock = SharedClock(lambda: WALL, quorum=QUORUM)
    for time in times:
        clock.see("alone", time)
    assert clock.now == float("-inf")


@given(stamps)
def test_on_a_live_stream_the_receivers_clock_is_enough(seen: list[tuple[str, float]]) -> None:
    clock = SharedClock(lambda: WALL, live=True, quorum=QUORUM)
    for session, time in seen:
        clock.see(session, time)
        if time <= WALL:
            assert clock.now >= time


def test_what_is_credible_moves_with_the_receivers_clock() -> None:
    wall = [WALL]
    clock = SharedClock(lambda: wall[0], skew=300.0)
    assert clock.is_credible(WALL + 300)
    assert not clock.is_credible(WALL + 301)
    wall[0] += 1
    assert clock.is_credible(WALL + 301)
    assert SharedClock().is_credible(1e18)


class Stream:
    """A table with a rule that allows three mails, an order, and a key that spans sessions."""

    def __init__(self, clock: SharedClock | None = None, *, key: str = "session") -> None:
        rule = f'{{"id": "max", "kind": "max_calls", "params": {{"tool": "mail", "n": 3}}, "key": ["{key}"]}}'
        self.policy = load_policy(f'{{"rules": [{rule}]}}', REGISTRY, file="p.json")
        self.counts, self.store = Counts(), MemoryStore()
        self.clock = clock or SharedClock(lambda: WALL, quorum=QUORUM)
        self.open()

    def open(self) -> None:
        self.table = Judge(self.policy, mode="stream", store=self.store, counts=self.counts, clock=self.clock)

    def restart(self) -> None:
        self.table.commit()
        self.counts.sessions = 0
        self.open()

    def feed(self, session: str, time: float | None, tool: str = "mail") -> list[str]:
        out: list[Finding] = []
        self.seen = getattr(self, "seen", 0) + 1
        event: Event = ToolCall(
            session_id=session, event_id=f"e{self.seen}", time=time, tool=tool, args={"n": self.seen}, agent="bot"
        )
        out += self.table.feed(event).findings
        return [finding.rule_id for finding in out]


@pytest.mark.parametrize("key", ["session", "agent"])
@pytest.mark.parametrize("ahead", [IDLE, IDLE + 60, 900_000.0, 1e9])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("liars", [1, 2, 20])
def test_other_sessions_reset_no_count(key: str, ahead: float, restart: bool, liars: int) -> None:
    stream = Stream(key=key)
    for number in range(3):
        assert stream.feed("victim", 100.0 + number) == []
    for number in range(liars):
        stream.feed(f"liar{number}", 102.0 + ahead, "look")
    if restart:
        stream.restart()
    assert stream.feed("victim", 103.0) == ["max"]


@pytest.mark.parametrize("key", ["session", "agent"])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("first", ["victim", "others"])
def test_a_clock_at_1970_resets_no_count(key: str, restart: bool, first: str) -> None:
    stream = Stream(SharedClock(lambda: WALL, live=True, quorum=QUORUM), key=key)

    def go_on(seconds: float) -> None:
        """Let others move the clock, some seconds and again."""
        for number in range(3):
            stamp = WALL - 9000 + seconds + number
            stream.table.feed(ToolCall(session_id="other", time=stamp, tool="look", agent="other"))
        if restart:
            stream.restart()

    if first == "others":
        go_on(0)
    for number in range(3):
        assert stream.feed("victim", float(number)) == []
        go_on(number * IDLE / 4)
    assert stream.feed("victim", 3.0) == ["max"]


@pytest.mark.parametrize("key", ["session", "agent"])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("tool", ["look", "mail"])
def test_a_stamp_that_the_next_event_takes_back_was_no_pause(key: str, restart: bool, tool: str) -> None:
    stream = Stream(key=key)
    for number in range(3):
        assert stream.feed("s", 100.0 + number) == []
    found = stream.feed("s", 102.0 + IDLE + 5, tool)
    if restart:
        stream.restart()
    found += stream.feed("s", 103.0)
    assert found == (["max"] if tool == "look" else ["max", "max"])
    assert stream.counts.disbelieved_times == 1


def test_a_pause_that_the_next_event_confirms_begins_anew() -> None:
    stream = Stream()
    for number in range(3):
        stream.feed("s", 100.0 + number)
    for number in range(3):
        assert stream.feed("s", 102.0 + IDLE + number) == []
    assert stream.feed("s", 110.0 + IDLE) == ["max"]


def test_a_session_closed_as_idle_begins_anew_when_it_was_idle() -> None:
    stream = Stream()
    for number in range(3):
        stream.feed("s", 100.0 + number)
    for name in "abcd":
        stream.feed(name, 200.0 + IDLE, "look")
    assert stream.counts.closed["idle"] == 1
    assert stream.counts.sessions == 4
    assert stream.feed("s", 110.0 + IDLE) == []
    assert stream.counts.sessions == 5


def test_a_closed_session_is_forgotten_after_as_long_again() -> None:
    stream = Stream()
    stream.feed("s", 100.0)
    for name in "abcd":
        stream.feed(name, 200.0 + IDLE, "look")
    assert stream.store.get("s") is None or stream.table.states_of("s")
    for name in "efgh":
        stream.feed(name, 300.0 + 2 * IDLE, "look")
    stream.table.commit()
    assert stream.store.get("s") is None
    assert stream.table.states_of("s") == []


def test_a_stamp_beyond_the_skew_is_judged_and_moves_nothing() -> None:
    stream = Stream()
    for number in range(3):
        stream.feed("s", 100.0 + number)
    assert stream.feed("s", WALL + 301) == ["max"]
    assert stream.feed("s", 103.0) == ["max"]
    assert (stream.counts.disbelieved_times, stream.counts.late_events) == (1, 0)


def test_an_end_from_the_future_fires_no_deadline_early() -> None:
    stream = Stream()
    stream.feed("s", 100.0)
    out: list[Finding] = []
    out += stream.table.feed(SessionEnd(session_id="s", event_id="end", time=WALL * 5)).findings
    assert stream.counts.closed["closed"] == 1
    assert stream.counts.disbelieved_times == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 3 * IDLE)), max_size=30), st.sets(st.integers(0, 29)))
def test_a_restart_changes_nothing(told: list[tuple[str, float]], restarts: set[int]) -> None:
    plain, restarted = Stream(), Stream()
    for number, (session, time) in enumerate(told):
        if number in restarts:
            restarted.restart()
        assert restarted.feed(session, time) == plain.feed(session, time)


@pytest.mark.parametrize(
    ("stamps", "counted_from"),
    [([9000.0, 1000.0, 1000.5], 1000.0), ([9000.0, 1000.0, 999.5], 999.5), ([float("nan")], 0.0)],
)
def test_a_first_stamp_that_nobody_believes_leaves_the_clock_finite(stamps: list[float], counted_from: float) -> None:
    rule = "{id: a, kind: must_call_after, params: {first: open, then: close, within_seconds: 20}}"
    policy = load_policy(f"{{sessions: {{max_out_of_orderness: 10s}}, rules: [{rule}]}}", REGISTRY, file="p.yaml")
    judge = Judge(policy)
    for number, time in enumerate(stamps):
        tool = "look" if number else "open"
        judge.feed(ToolCall(session_id="s", event_id=f"e{number}", time=time, tool=tool))
    assert [(finding.at, finding.time) for finding in judge.end()] == [("deadline", counted_from + 20)]


def test_time_that_passes_sets_no_clock_back() -> None:
    stream = Stream()
    stream.table.advance(2000.0)
    stream.table.advance(10.0)
    assert stream.table.watermark == 2000.0


def told(policy: str, events: Sequence[tuple[float, str]], mode: Mode) -> list[tuple[str, str]]:
    """Return each finding of one session's calls, with where it was made; one session alone moves no clock."""
    judge = Judge(
        load_policy(policy, REGISTRY, file="p.yaml"), mode=mode, clock=SharedClock(lambda: WALL, quorum=QUORUM)
    )
    found: list[Finding] = []
    for number, (time, tool) in enumerate(events):
        call = ToolCall(session_id="s", event_id=f"{number}", time=time, tool=tool, args={}, agent="bot")
        found += judge.feed(call).findings
    return [(finding.alert_id, finding.at) for finding in (*found, *judge.end())]


def test_a_second_pause_that_nobody_confirms_loses_no_obligation_of_a_key() -> None:
    rule = "{id: m, kind: must_call_after, params: {first: refund, then: mail, within_seconds: 20}, key: [agent]}"
    pauses = [(start + second, "refund") for start in (0, 3 * IDLE, 6 * IDLE, 9 * IDLE) for second in (0, 1)]
    found = told(f"rules: [{rule}]", pauses, "stream")
    assert len(found) == 8
    assert sorted(found) == sorted(told(f"rules: [{rule}]", pauses, "batch"))


@pytest.mark.parametrize("mode", ["batch", "stream"])
@pytest.mark.parametrize("late", [5.0, 3 * IDLE - 1, -1e6])
def test_a_late_event_behind_a_pause_opens_no_session(mode: Mode, late: float) -> None:
    policy = "{sessions: {max_out_of_orderness: 10s}, rules: [{id: m, kind: must_call, params: {tool: mail}}]}"
    before = [(0.0, "mail"), (1.0, "look"), (3 * IDLE, "mail"), (3 * IDLE + 1, "look")]
    after = [(3 * IDLE + 20, "look")]
    assert told(policy, [*before, *after], mode) == told(policy, [*before, (late, "look"), *after], mode) == []


@pytest.mark.parametrize("wakes", [[], [(None, "third")], [(106802.0, "third")]])
def test_whatever_wakes_a_closed_key_its_life_before_the_pause_is_ended(wakes: list[tuple[float | None, str]]) -> None:
    rule = """{id: m, kind: must_followup, key: [agent], params: {trigger: [], must: {kind: text_includes, text: done},
      within_turns: 2}}"""
    judge, found = Judge(load_policy(f"rules: [{rule}]", REGISTRY, file="p.yaml"), mode="stream"), list[Finding]()
    told = [(1e5, "s"), (105000.0, "other"), (106000.0, "clock"), (100001.0, "s"), (106801.0, "clock")]
    for number, (time, name) in enumerate([*told, *wakes, (120000.0, "clock")]):
        answer: dict[str, Json] = {"content": "well", "stop_reason": "end_turn"}
        agent = "" if name == "clock" else "bot"
        turn = Turn(session_id=name, event_id=f"{number}", time=time, response=answer, agent=agent)
        found += judge.feed(turn).findings
    assert 100001.0 + IDLE in [one.time for one in found if one.at == "end"]
