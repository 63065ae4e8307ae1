"""A guard goes by its own clock: no stamp of a caller moves anything, and what is recorded has its time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_guard.guard.clocks import ReceiverClock
from stream_guard.guard.gate import Gate
from stream_guard.guard.inline import Guard
from stream_guard.history.database import open_database
from stream_guard.judge.model import Action, Event, SessionEnd, ToolCall, ToolResult, Turn
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate

REGISTRY = build_registry()
NOW = 1_767_600_000.0
# What a caller may write: nothing, always the same, steps that leave a window, an idle time apart, years ahead, back.
STAMPS: list[list[float | None]] = [
    [None] * 5,
    [NOW] * 5,
    [NOW + 61 * number for number in range(5)],
    [NOW + 2400 * number for number in range(5)],
    [NOW + 4e8 * (number + 1) for number in range(5)],
    [NOW - 3600 * number for number in range(5)],
    [0.0, NOW, None, 2e11, 5.0],
]
LIMITS: list[dict[str, Any]] = [
    {"kind": "max_calls", "params": {"tool": "ping", "n": 2}},
    {"kind": "max_calls", "params": {"tool": "ping", "n": 2}, "key": ["labels.user"]},
    {"kind": "max_aggregate", "params": {"tool": "ping", "window_seconds": 60, "over": 2}, "key": ["labels.user"]},
    {
        "kind": "tool_guard",
        "params": {
            "when": {"call_count_in_window_gt": {"tool": "ping", "value": 2, "windowSeconds": 60}},
            "enforce_window": "inline",
        },
    },
]


def policy(*rules: dict[str, Any], **more: Any) -> Policy:
    named = [{"id": f"r{number}", "then": "block", **rule} for number, rule in enumerate(rules)]
    return load_policy(json.dumps({"rules": named, **more}), REGISTRY, file="rules.json")


def ping(number: int, time: float | None, **more: Any) -> ToolCall:
    ids = {"session_id": "s", "event_id": f"e{number}", "call_id": f"c{number}"}
    return ToolCall(**{**ids, "tool": "ping", "args": {}, "labels": {"user": "u"}, "time": time, **more})


class Wall:
    """A wall clock for tests."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("rule", LIMITS)
@pytest.mark.parametrize("stamps", STAMPS)
def test_no_stamp_of_a_caller_moves_a_limit(rule: dict[str, Any], stamps: list[float | None]) -> None:
    guard = Guard(policy(rule))
    answers = [guard.check(ping(number, time)).action for number, time in enumerate(stamps)]
    assert answers == [Action.ALLOW] * 2 + [Action.BLOCK] * 3


@pytest.mark.parametrize("rule", LIMITS)
def test_a_limit_opens_again_when_time_has_passed_for_the_guard(rule: dict[str, Any]) -> None:
    wall = Wall()
    guard = Guard(policy(rule), clock=wall)
    assert [guard.check(ping(number, NOW)).action for number in range(3)][-1] is Action.BLOCK
    wall.now += 3600
    assert guard.check(ping(9, NOW)).action is Action.ALLOW, "however old the stamp is"


def test_an_event_that_is_told_counts_when_it_came_even_with_a_policy_that_waits_for_late_ones() -> None:
    rule = {"kind": "max_calls", "params": {"tool": "ping", "n": 2}, "key": ["labels.user"]}
    guard = Guard(policy(rule, sessions={"max_out_of_orderness": 60}))
    for number, time in enumerate((9e9, 5.0)):
        guard.observe(ping(number, time, session_id=f"told-{number}"))
    assert guard.check(ping(2, NOW, session_id="asked")).action is Action.BLOCK


def test_a_deadline_passes_by_the_clock_of_the_guard() -> None:
    fresh = {"first": "confirm", "second": "pay", "within_seconds": 300}
    wall = Wall()
    guard = Guard(policy({"kind": "must_call_before", "params": fresh}), clock=wall)
    assert guard.check(ping(0, NOW, tool="confirm")).action is Action.ALLOW
    wall.now += 299
    assert guard.check(ping(1, NOW + 9999, tool="pay")).action is Action.ALLOW
    wall.now += 2
    assert guard.check(ping(2, NOW + 1, tool="pay")).action is Action.BLOCK


def test_stamps_that_lead_the_clock_by_more_than_the_skew_are_counted() -> None:
    guard = Guard(policy(LIMITS[0]), clock=Wall())
    for number, ahead in enumerate((-1e6, 0.0, 299.0, 301.0)):
        guard.check(ping(number, NOW + ahead))
    guard.observe(Turn(session_id="s", time=9e9))
    assert guard.counts.disbelieved_times == 2


def test_a_clock_that_is_set_back_a_little_stands_and_one_that_was_far_wrong_is_believed() -> None:
    wall = Wall()
    clock = ReceiverClock(300.0, wall)
    told = []
    for step in (0.0, 10.0, -200.0, 150.0, 100.0, -1000.0):
        wall.now += step
        told.append(clock() - NOW)
    assert told == [0, 10, 10, 10, 60, -940]


def test_an_event_delivered_again_is_known_whatever_is_stamped_on_it() -> None:
    guard = Guard(policy({"kind": "max_calls", "params": {"tool": "ping", "n": 1}}))
    for time in (None, NOW, 5.0, 9e9):
        guard.observe(ping(0, time))
    assert guard.counts.duplicate_events == 3
    assert guard.check(ping(1, NOW)).action is Action.BLOCK


def gate_with(rules: Policy, folder: Path, wall: Wall, recorded: list[Event]) -> Gate:
    return Gate(rules, open_database(str(folder / "history.db")), clock=wall, emit=recorded.append)


def test_what_a_gate_records_has_the_time_it_came_and_is_judged_alike_on_a_stream(tmp_path: Path) -> None:
    rules, wall, recorded = policy(*LIMITS), Wall(), list[Event]()
    gate = gate_with(rules, tmp_path, wall, recorded)
    found: list[str] = []
    for number, stamps in enumerate((5.0, None, 9e9, NOW, NOW)):
        wall.now += 7
        attempt = ping(number, stamps, call_id="0")
        found += [alert.alert_id for alert in gate.check(attempt).alerts]
        gate.check(attempt)  # the answer was lost
        gate.observe(ToolResult(session_id="s", event_id=f"r{number}", call_id="0", time=stamps))
        gate.observe(ToolResult(session_id="s", event_id=f"r{number}", call_id="0", time=stamps))
    gate.observe(SessionEnd(session_id="s", event_id="end"))
    gate.database.close()
    assert all(event.time is not None and NOW < event.time <= wall.now for event in recorded)
    assert found
    assert sorted({finding.alert_id for finding in evaluate(recorded, rules)}) == sorted(set(found))
