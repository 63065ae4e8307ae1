"""Batch: one evaluation after the other with the same policy, as if each were the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.registry import build_registry
from stream_guard.running import batch
from stream_guard.testing import events
from stream_guard.testing.running import one_rule_policy

REGISTRY = build_registry()
POLICY = """
rules:
  - {id: few, kind: max_calls, params: {tool: pay, n: 1}}
  - {id: all, kind: max_calls, params: {tool: pay, n: 1}, key: [agent]}
  - {id: close, kind: must_call, params: {tool: close}}
"""
TRACE: list[dict[str, Any]] = [{"call": "pay", "agent": "a"}, {"call": "pay", "agent": "a"}]


def ids(found: list[sg.Finding]) -> list[str]:
    return [finding.alert_id for finding in found]


@pytest.mark.parametrize("end", [[], [{"end": "closed"}]])
def test_a_second_evaluation_finds_what_the_first_found(end: list[dict[str, Any]]) -> None:
    policy = sg.parse_policy(POLICY, REGISTRY)
    trace = [*TRACE, *end]
    first = ids(batch.evaluate(events(trace), policy))
    assert len(first) == 3
    assert ids(batch.evaluate(events(trace), policy)) == first
    assert ids(batch.evaluate(events(trace), policy, counts=sg.Counts())) == first


def test_another_policy_in_between_changes_nothing() -> None:
    policy, other = sg.parse_policy(POLICY, REGISTRY), sg.parse_policy("rules: []", REGISTRY)
    first = ids(batch.evaluate(events(TRACE), policy))
    assert batch.evaluate(events(TRACE), other) == []
    assert ids(batch.evaluate(events(TRACE), policy)) == first


def test_an_evaluation_inside_another_has_sessions_of_its_own() -> None:
    policy = sg.parse_policy(POLICY, REGISTRY)
    first = ids(batch.evaluate(events(TRACE), policy))
    inner: list[sg.Finding] = []

    def with_another_inside() -> Iterator[sg.Event]:
        yield from events(TRACE[:1])
        inner.extend(batch.evaluate(events(TRACE), policy))
        yield from list(events(TRACE))[1:]

    assert ids(batch.evaluate(with_another_inside(), policy)) == first
    assert ids(inner) == first


def test_what_broke_off_leaves_nothing_to_the_next() -> None:
    policy = sg.parse_policy(POLICY, REGISTRY)
    first = ids(batch.evaluate(events(TRACE), policy))
    with pytest.raises(sg.DecodeError):
        batch.evaluate([*events(TRACE[:1]), sg.UserMessage(session_id="")], policy)
    assert ids(batch.evaluate(events(TRACE), policy)) == first


class Raises(sg.Rule[sg.Params, sg.NoState]):
    """Raises at every call."""

    kind = "raises"

    def on_tool_call(self, call: sg.ToolCall, _state: sg.NoState) -> sg.Hit | None:
        raise ValueError(call.tool)


def test_an_error_of_a_rule_is_reported_each_time() -> None:
    policy = one_rule_policy(Raises, {})
    kinds = [[finding.kind for finding in batch.evaluate(events(TRACE), policy)] for _ in range(2)]
    assert kinds == [["rule_error"], ["rule_error"]]
