"""Bytes that one session may take: events that wait for their order, and the session as it is stored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding, ToolCall
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore

POLICY = """
sessions: {max_out_of_orderness: 1h, idle: 1d}
rules:
  - {id: max, kind: max_calls, params: {tool: mail, n: 3}}
"""
PLAIN = POLICY.replace("max_out_of_orderness: 1h, ", "")
REGISTRY = build_registry()


def open_(policy: str, counts: Counts, store: MemoryStore, **limits: int) -> Judge:
    loaded = load_policy(policy, REGISTRY, file="p.yaml")
    return Judge(loaded, SessionLimits(**limits), mode="stream", store=store, counts=counts)


def mail(number: int, time: float | None, size: int = 1000, **more: Any) -> ToolCall:
    text = "x" * size
    return ToolCall(session_id="s", event_id=f"e{number}", time=time, tool="mail", args={"text": text}, **more)


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("stamped", [True, False])
def test_what_is_held_back_beyond_the_budget_is_judged_at_once(stamped: bool, restart: bool) -> None:
    counts, store, out = Counts(), MemoryStore(), list[Finding]()
    table = open_(POLICY, counts, store, max_buffered_bytes=5000)
    for number in range(20):
        out += table.feed(mail(number, 100.0 + number if stamped or not number else None)).findings
        if restart:
            table.commit()
            counts.sessions = 0
            table = open_(POLICY, counts, store, max_buffered_bytes=5000)
    assert counts.evictions["buffered_events"] == 16
    assert len(out) == 13  # of sixteen that were judged
    out += table.end()
    assert len(out) == 17
    assert counts.evictions["buffered_events"] == 16


@given(st.lists(st.tuples(st.floats(0, 3000), st.integers(0, 3000)), max_size=12), st.integers(1, 6000))
def test_no_budget_loses_an_event(told: list[tuple[float, int]], most: int) -> None:
    counts, out = Counts(), list[Finding]()
    table = open_(POLICY, counts, MemoryStore(), max_buffered_bytes=most)
    for number, (time, size) in enumerate(told):
        out += table.feed(mail(number, 1000.0 + time, size)).findings
    out += table.end()
    assert counts.events[ToolCall] == len(told)
    assert len(out) == max(0, len(told) - 3)


def test_within_the_budget_events_are_judged_in_their_order() -> None:
    counts, out = Counts(), list[Finding]()
    table = open_(POLICY, counts, MemoryStore(), max_buffered_bytes=10_000)
    for number, time in enumerate((130.0, 100.0, 120.0, 110.0)):
        out += table.feed(mail(number, time)).findings
    out += table.end()
    assert [finding.event_id for finding in out] == ["e0"]
    assert not counts.evictions


def test_a_session_that_is_too_large_forgets_its_oldest_open_calls_and_no_count() -> None:
    counts, store, out = Counts(), MemoryStore(), list[Finding]()
    table = open_(PLAIN, counts, store, max_session_bytes=20_000)
    for number in range(8):
        out += table.feed(mail(number, 100.0 + number, 1, call_id=f"{number}" * 5000)).findings
    table.commit()
    assert counts.evictions == {"open_calls": 6}
    assert len(store.get("s") or b"") <= 20_000
    found = len(out)
    out += table.feed(mail(9, 200.0)).findings
    assert len(out) == found + 1  # it still counts
    out += table.feed(mail(10, 201.0, 1, call_id="7" * 5000)).findings
    assert counts.merged_calls == 1  # the latest is still open


def test_a_session_that_is_too_large_for_its_last_event_keeps_its_counts() -> None:
    counts, store, out = Counts(), MemoryStore(), list[Finding]()
    table = open_(PLAIN, counts, store, max_session_bytes=2000)
    long: dict[str, Any] = {"run_id": "r" * 5000, "agent": "a" * 5000, "labels": {"short": "s", "long": "l" * 5000}}
    for number in range(4):
        out += table.feed(mail(number, 100.0 + number, **long)).findings
        table.commit()
        counts.sessions = 0
        table = open_(PLAIN, counts, store, max_session_bytes=2000)
    assert len(out) == 1
    assert len(store.get("s") or b"") <= 2000
    assert "session_bytes" not in counts.evictions


def test_a_session_that_is_too_large_without_open_calls_is_closed_counted_and_told() -> None:
    counts, store, out = Counts(), MemoryStore(), list[Finding]()
    table = open_(PLAIN, counts, store, max_session_bytes=2000)
    for number in range(4):
        out += table.feed(mail(number, 100.0 + number, part="p" * 5000)).findings
    table.commit()
    counts.sessions = 0
    again = open_(PLAIN, counts, store, max_session_bytes=2000)
    out += again.feed(mail(5, 110.0)).findings
    assert [finding.kind for finding in table.advance(111.0)] == ["stream_guard_unwritable_session"]
    assert len(out) == 1  # what it counted is gone
    assert table.advance(112.0) == [], "it is told once"
    assert counts.evictions["session_bytes"] == 1
