"""Ends of sessions by those who may not end them: the end is judged, and no limit begins anew."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream_guard.judge.clock import QUORUM, SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, SessionEnd, ToolCall, Turn, UserMessage
from stream_guard.judge.rule import Mode
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore

WALL, IDLE, START = 1_000_000.0, 1800.0, 1000.0
REGISTRY = build_registry()
POLICY = """
rules:
  - {id: max, kind: max_calls, params: {tool: mail, n: 3}}
  - {id: must, kind: must_call, params: {tool: greet}}
"""
BOSS_ONLY = SessionLimits(end_from=("boss",))
Told: TypeAlias = tuple[str, float | None]
"""What is told of the session, and its stamp: a call, an end, or a restart in between."""


class Run:
    """One session with at most three mails, which has to greet."""

    def __init__(self, limits: SessionLimits = BOSS_ONLY, mode: Mode = "stream", lateness: int = 0) -> None:
        text = f"sessions: {{max_out_of_orderness: {lateness}}}\n{POLICY}"
        self.policy = load_policy(text, REGISTRY, file="p.yaml")
        self.counts, self.store, self.limits, self.mode = Counts(), MemoryStore(), limits, mode
        self.found: list[Finding] = []
        self.told = 0
        self.open()

    def open(self) -> None:
        clock = SharedClock(lambda: WALL, quorum=QUORUM)
        self.table = Judge(self.policy, self.limits, mode=self.mode, store=self.store, counts=self.counts, clock=clock)

    def tell(self, what: str, time: float | None = None, session: str = "s") -> None:
        self.told += 1
        if what == "restart":
            self.table.commit()
            self.counts.sessions = 0
            self.open()
            return
        event: Event = ToolCall(session_id=session, event_id=f"e{self.told}", time=time, tool=what, agent="bot")
        if what.startswith("end"):
            agent = what.partition(" ")[2] or "bot"
            event = SessionEnd(session_id=session, event_id=f"e{self.told}", time=time, agent=agent)
        self.found += self.table.feed(event).findings

    def rules(self) -> list[str]:
        return [finding.rule_id for finding in self.found]


@pytest.mark.parametrize("mode", ["stream", "batch"])
@pytest.mark.parametrize("lateness", [0, 10])
@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("limits", [SessionLimits(), BOSS_ONLY])
def test_an_agent_resets_no_limit_by_ending_its_own_session(
    mode: Mode, lateness: int, stamped: bool, restart: bool, limits: SessionLimits
) -> None:
    run = Run(limits, mode=mode, lateness=lateness)
    for number in range(5):
        time = START + 20 * number if stamped else None
        run.tell("mail", time)
        run.tell("end", time)
        if restart:
            run.tell("restart")
    run.found += run.table.end()
    assert run.rules().count("max") == 2
    assert run.counts.disbelieved_ends > 0
    assert "must" in run.rules()  # the end was judged


@pytest.mark.parametrize(
    ("limits", "end"),
    [(SessionLimits(end_from=("*",)), "end"), (BOSS_ONLY, "end boss"), (BOSS_ONLY, "end boss@2")],
)
def test_the_end_of_one_who_may_end_sessions_begins_anew(limits: SessionLimits, end: str) -> None:
    run = Run(limits)
    for number in range(5):
        run.tell("mail", START + number)
        run.tell(end, START + number)
    assert run.rules() == ["must"] * 5
    assert run.counts.sessions == run.counts.disbelieved_ends == 0


@pytest.mark.parametrize("mode", ["stream", "batch"])
@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("end", ["end boss", "end"])
def test_an_attempt_like_one_before_an_end_that_counts_is_found_under_an_id_of_its_own(
    mode: Mode, restart: bool, end: str
) -> None:
    run = Run(mode=mode)
    for life in range(3):
        for number in range(4):
            run.tell("mail", START + 10 * life + number)
        run.tell(end, START + 10 * life + 5)
        run.tell("end boss", START + 10 * life + 5)
        if restart:
            run.tell("restart")
    assert run.rules() == ["max", "must"] * 3
    assert len({finding.alert_id for finding in run.found}) == 6


@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_sessions_that_ended_for_good_go_before_those_that_are_open_where_there_is_no_room(mode: Mode) -> None:
    run = Run(SessionLimits(end_from=("boss",), max_live=4), mode=mode)
    for number in range(3):
        run.tell("mail", START + number, session="open")
    for number in range(10):
        run.tell("mail", START + 4 * number + 5, session=f"s{number}")
        run.tell("end boss", START + 4 * number + 6, session=f"s{number}")
    run.tell("mail", START + 50, session="open")
    assert run.rules().count("max") == 1
    assert not any(run.counts.evictions.values())
    assert run.counts.disbelieved_ends == 0
    assert len(run.table._kept.ids()) == 4


@pytest.mark.parametrize("mode", ["stream", "batch"])
@pytest.mark.parametrize("restart", [True, False])
def test_the_clock_of_a_session_begins_anew_after_an_end_that_counts(mode: Mode, restart: bool) -> None:
    run = Run(mode=mode)
    run.tell("mail", START + 20 * IDLE)
    run.tell("end boss", START + 20 * IDLE + 1)
    if restart:
        run.tell("restart")
    assert [finding.rule_id for finding in run.table.preview_end("s")] == ["must"]  # it has done nothing yet
    for number in range(4):
        run.tell("mail", START + 2 * IDLE * number)
    run.found += run.table.end()
    assert run.rules() == ["must"] * 5
    assert run.counts.late_events == 0
    assert len({finding.alert_id for finding in run.found}) == 5


def test_events_of_before_an_end_that_counts_are_known_when_they_come_again() -> None:
    run = Run()
    for _ in range(2):
        run.told = 0
        for number in range(4):
            run.tell("mail", START + number)
        run.tell("end boss", START + 5)
    assert run.rules() == ["max", "must"]
    assert run.counts.duplicate_events == 5


def test_an_end_that_is_confirmed_by_one_who_may_is_an_end() -> None:
    run = Run()
    for number in range(3):
        run.tell("mail", START + number)
    run.tell("end", START + 3)
    run.tell("end", START + 4)
    run.tell("end boss", START + 5)
    run.tell("mail", START + 6)
    assert run.rules() == ["must"]
    assert run.counts.disbelieved_ends == 0


def test_a_session_that_was_silent_after_its_end_begins_anew() -> None:
    run = Run()
    for number in range(3):
        run.tell("mail", START + number)
    run.tell("end", START + 3)
    run.tell("mail", START + 3 + IDLE)
    assert run.rules() == ["must"]
    assert run.counts.disbelieved_ends == 0


@pytest.mark.parametrize("name", ["", "bot", "boss", "orchestrator@3", "*"])
def test_by_default_nobody_resets_a_limit_whatever_name_the_end_bears(name: str) -> None:
    run = Run(SessionLimits())
    for number in range(4):
        run.tell("mail", START + number)
        event = SessionEnd(session_id="s", event_id=f"end{number}", time=START + number, agent=name)
        run.found += run.table.feed(event).findings
    assert run.rules().count("max") == 1


def test_a_redelivered_end_wakes_nobody() -> None:
    run = Run()
    run.tell("mail", START)
    again = SessionEnd(session_id="s", event_id="end", time=START + 1, agent="bot")
    for _ in range(3):
        run.found += run.table.feed(again).findings
    assert run.rules() == ["must"]
    assert (run.counts.duplicate_events, run.counts.disbelieved_ends, run.counts.sessions) == (2, 0, 0)


@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_an_end_of_which_nothing_else_is_known_is_unevaluable(mode: Mode) -> None:
    run = Run(mode=mode)
    run.tell("end", START)
    run.tell("end boss", START)
    run.tell("end")
    assert (run.rules(), run.counts.unevaluable[1]) == ([], 2)  # the second end of three says nothing new
    assert [finding.rule_id for finding in run.table.preview_end("t")] == ["must"]  # who asks knows of it
    run.tell("mail", START + 1)
    run.found += run.table.end()
    assert run.rules() == ["must"]  # an agent that ends what it has not begun gets out of nothing


def test_a_session_that_was_forgotten_ends_no_more() -> None:
    run = Run(mode="stream")
    run.tell("greet", START)
    end = SessionEnd(session_id="s", event_id="end", time=START + 1, agent="boss")
    for _ in range(2):  # the session is forgotten at the first, and the second is a redelivery
        run.found += run.table.feed(end).findings
    run.tell("look", START, session="silent")
    run.tell("greet", START, session="silent")
    for time in (START + 2 * IDLE, START + 5 * IDLE):
        run.found += run.table.advance(time)
    run.tell("end", START + 1, session="silent")
    assert run.rules() == []


def test_ended_sessions_are_forgotten_when_they_were_silent_and_counted_where_there_is_no_room() -> None:
    run = Run(SessionLimits(end_from=("boss",), max_live=4), mode="batch")
    for number in range(10):
        run.tell("mail", START, session=f"s{number}")
        run.tell("end", START + 1, session=f"s{number}")
    assert run.counts.evictions == {"ended_sessions": 6}
    live = Run()
    live.tell("mail", START)
    live.tell("end", START + 1)
    for name in "abcd":
        live.tell("look", START + 3 * IDLE, session=name)
    live.table.commit()
    assert live.store.get("s") is not None  # however far the clock jumps at once, a source that lags may go on
    for name in "efgh":
        live.tell("look", START + 5 * IDLE, session=name)
    live.table.commit()
    assert live.store.get("s") is None


def test_ended_sessions_keep_digests_and_know_their_events() -> None:
    run = Run(mode="batch")
    events: list[Event] = []
    for number in range(50):
        name = f"s{number}"
        call = ToolCall(session_id=name, event_id="e", time=START, tool="mail", agent="bot", args={"to": name})
        events += [call, SessionEnd(session_id=name, event_id="end", time=START + 1, agent="bot")]
    for event in events:
        run.found += run.table.feed(event).findings
    assert {type(run.table._touched[f"s{number}"].lasting.ids.content("e")) for number in range(50)} == {int}
    for event in events:
        run.found += run.table.feed(event).findings
    assert run.counts.duplicate_events == 100
    other = ToolCall(session_id="s0", event_id="e", time=START, tool="mail", agent="bot", args={"to": "another"})
    run.found += run.table.feed(other).findings
    assert run.counts.changed_events == 1


stamps = st.none() | st.sampled_from([0.0, 1.0, 5.0, IDLE / 2, IDLE - 1, IDLE, IDLE + 5, 3 * IDLE, 2 * WALL])
steps = st.lists(
    st.tuples(
        st.sampled_from(["mail", "mail", "end", "restart"]), stamps.map(lambda t: None if t is None else START + t)
    ),
    max_size=12,
)


@given(steps, st.sampled_from(["stream", "batch"]))
@example([("mail", START), ("mail", START), ("mail", START), ("end", START + IDLE - 1), ("mail", START + 1)], "stream")
@example([("mail", None), ("mail", None), ("mail", None), ("end", None), ("mail", START)], "batch")
def test_no_end_changes_what_limits_find(told: Sequence[Told], mode: Mode) -> None:
    with_ends, without = Run(mode=mode), Run(mode=mode)
    latest, jumped = inf, False
    for what, time in told:
        if what == "end" and jumped:
            continue  # like any event, it says whether the pause before the last one is to be believed
        if what == "mail":
            jumped = time is not None and time - latest >= IDLE
            latest = latest if time is None else time if latest == inf else max(latest, time)
        with_ends.tell(what, time)
        if what == "end":
            without.told += 1
        else:
            without.tell(what, time)
    places = [{finding.event_id for finding in run.found if finding.rule_id == "max"} for run in (with_ends, without)]
    assert places[0] == places[1]


@pytest.mark.parametrize("key", ["[session]", "[session, labels.user]"])
def test_the_ends_of_parts_without_clocks_have_ids_of_their_own(key: str) -> None:
    gate = "when: {path: labels.user, op: ==, value: u}"
    rule = f"{{id: r, kind: must_call, params: {{tool: report}}, scope: part, key: {key}, {gate}}}"
    judge, found = Judge(load_policy(f"rules: [{rule}]", REGISTRY, file="p.yaml")), list[Finding]()
    for number in range(4):
        message = UserMessage(session_id="s", event_id=f"u{number}", text="hi", labels={"user": "u"})
        turn = Turn(session_id="s", event_id=f"t{number}", response={"content": "yes"}, labels={"user": "u"})
        for event in (message, turn):
            found += judge.feed(event).findings
    found += judge.end()
    assert len(found) == 4
    assert len({finding.alert_id for finding in found}) == 4
