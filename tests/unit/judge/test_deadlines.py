"""Deadlines come in order: by time, then by the id of the session."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stream_guard.judge.judge import Judge, Row
from stream_guard.judge.kept import Deadlines
from stream_guard.judge.limits import Limits
from stream_guard.judge.model import ToolCall
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

TIMES = st.one_of(st.integers(0, 9).map(float), st.floats(allow_nan=False))
STEPS = st.one_of(
    st.tuples(st.just("push"), TIMES, st.sampled_from(["a", "b", "\xe9", "\u65e5", "\ud800", ""])),
    st.tuples(st.just("pop"), TIMES),
    st.tuples(st.just("bring_forward"), st.floats(0, 1e6)),
)


@given(st.lists(STEPS, max_size=200))
def test_the_earliest_comes_first_whatever_was_pushed(steps: list[tuple[Any, ...]]) -> None:
    deadlines, known = Deadlines(), dict[str, float]()
    for name, *values in steps:
        if name == "push":
            time, whose = values
            if time < known.get(whose, inf):
                known[whose] = time
            deadlines.push(time, whose)
        elif name == "bring_forward":
            known = {whose: time - values[0] for whose, time in known.items()}
            deadlines.bring_forward(*values)
        else:
            due = [(time, whose) for whose, time in known.items() if time <= values[0]]
            earliest = min(due)[1] if due else None
            assert deadlines.pop(*values) == earliest
            if earliest is not None:
                del known[earliest]
        assert deadlines.first() == min(known.values(), default=inf)


def test_a_session_that_is_read_again_and_again_has_one_deadline() -> None:
    rule = "{id: r, kind: max_calls, params: {tool: pay, n: 9}}"
    judge = Judge(load_policy(f"rules: [{rule}]", build_registry(), file="p.yaml"), Limits(in_memory=1), mode="stream")
    for number in range(60):
        judge.feed(ToolCall(session_id=f"s{number % 3}", event_id=f"e{number}", time=1000.0 + number, tool="look"))
        judge.commit()
    deadlines = judge._kept.deadlines
    assert sum(deadlines.pop() is not None for _ in range(60)) == 3
    assert judge.counts.sessions == 3


def test_loading_rows_leaves_the_sessions_of_other_judges_counted() -> None:
    rule = "{id: r, kind: max_calls, params: {tool: pay, n: 9}}"
    policy = load_policy(f"rules: [{rule}]", build_registry(), file="p.yaml")
    judge = Judge(policy, Limits(max_live=10), mode="stream")
    other = Judge(judge)
    for number in range(10):
        (other if number % 2 else judge).feed(look(number))
    rows = other.changes()
    assert judge.counts.sessions == 10
    other.load(rows)
    assert judge.counts.sessions == 10
    for number in range(10, 30):
        judge.feed(look(number))
    assert judge.counts.sessions == 10
    assert judge.counts.evictions["sessions"] == 20
    judge.end()
    other.end()
    assert judge.counts.sessions == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_sessions_have_their_turn_by_their_deadlines_whatever_they_had_before(*, restarts: bool) -> None:
    rule = "{id: r, kind: max_calls, params: {tool: pay, n: 1}, key: [labels.user]}"
    text = f"sessions: {{idle: 60s, max_out_of_orderness: 90s}}\nrules: [{rule}]"
    policy = load_policy(text, build_registry(), file="p.yaml")
    told = [("o", 107.0, "pay"), ("q", 107.0, "pay"), ("s", 172.0, "look"), ("o", 113.0, "look"), ("s", 1e6, "look")]
    judge, rows, found = Judge(policy, mode="stream"), dict[str, Row](), list[str]()
    for number, (session, time, tool) in enumerate(told):
        call = ToolCall(session_id=session, event_id=f"e{number}", call_id=f"c{number}", time=time, tool=tool)
        found += [finding.session_id for finding in judge.feed(replace(call, labels={"user": "u"})).findings]
        if restarts:
            rows |= {row[0]: row for row in judge.changes()}
            judge = Judge(policy, mode="stream")
            judge.load(rows.values())
    assert [*found, *(finding.session_id for finding in judge.end())] == ["o"]


def look(number: int) -> ToolCall:
    return ToolCall(session_id=f"s{number}", event_id="e", time=1000.0 + number, tool="look")
