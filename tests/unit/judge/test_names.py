"""Tool names in disguise, inline and on the stream."""

from __future__ import annotations

from typing import Any

import pytest

import stream_guard as sg

POLICY = """
tool_classes: {money: [pay_out]}
rules:
  - {id: exact, kind: no_call, params: {tool: refund}, then: block}
  - {id: glob, kind: no_call, params: {tool: "*delete*"}, then: block}
  - {id: named, kind: tool_guard, params: {when: {tool_name_in: [wire]}}, then: block}
  - {id: pattern, kind: tool_guard, params: {when: {tool_name_regex: "^drop_"}}, then: block}
  - {id: class, kind: no_call, params: {tool: "@money"}, then: block}
  - {id: order, kind: must_call_before, params: {first: confirm, second: ship}, then: block}
  - {id: own, kind: no_call, params: {tool: возврат}, then: block}
  - {id: any, kind: max_calls, params: {tool: "*", n: 100}}
"""


def answers(tool: str) -> tuple[str, set[str]]:
    guard = sg.Guard(sg.parse_policy(POLICY))
    decision = guard.check(sg.ToolCall(session_id="s", tool=tool, args={}))
    return decision.action.word, {finding.rule_id for finding in decision.findings}


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("r\u200befund", "exact"),
        ("r\u0435fund", "exact"),
        ("ｒｅｆｕｎｄ", "exact"),
        ("refund\x00", "exact"),
        ("\u202erefund", "exact"),
        ("d\u0435lete_all", "glob"),
        ("w\u0456re", "named"),
        ("dr\u043ep_table", "pattern"),
        ("\u0440\u0430y_out", "class"),
        ("sh\u0456p", "order"),
        ("в\u200bозврат", "own"),
    ],
)
def test_a_name_in_disguise_is_judged_as_what_it_looks_like(written: str, rule: str) -> None:
    action, rules = answers(written)
    assert action == "block"
    assert rule in rules
    assert rule == "pattern" or "stream_guard_lookalike" in rules


@pytest.mark.parametrize(
    "tool", ["look", "Refund", " refund", "refunds", "сору", "返金", "send_📧", "résumé", "αβγ", "find"]
)
def test_an_honest_name_is_left_alone(tool: str) -> None:
    assert answers(tool) == ("allow", set())


def test_how_accents_are_put_together_is_no_disguise() -> None:
    policy = sg.parse_policy(
        '{"rules": [{"id": "r", "kind": "no_call", "params": {"tool": "r\\u00e9sum\\u00e9"}, "then": "block"}]}'
    )
    decision = sg.Guard(policy).check(sg.ToolCall(session_id="s", tool="re\u0301sume\u0301", args={}))
    assert (decision.action.word, len(decision.findings)) == ("block", 1)


def events(*written: dict[str, Any]) -> list[sg.Event]:
    kinds: dict[str, Any] = {"tool_call": sg.ToolCall, "tool_result": sg.ToolResult, "turn": sg.Turn}
    return [
        kinds[event["kind"]](session_id="s", **{key: value for key, value in event.items() if key != "kind"})
        for event in written
    ]


def found(policy: str, *written: dict[str, Any]) -> list[str]:
    return [finding.rule_id for finding in sg.evaluate(events(*written), sg.parse_policy(policy))]


def test_a_call_in_disguise_is_one_attempt_wherever_it_is_written() -> None:
    block = {"type": "tool_use", "id": "c1", "name": "r\u0435fund", "input": {}}
    policy = '{"rules": [{"id": "max", "kind": "max_calls", "params": {"tool": "refund", "n": 1}}]}'
    told: list[dict[str, Any]] = [
        {"kind": "turn", "event_id": "t", "response": {"content": [block], "stop_reason": "tool_use"}},
        {"kind": "tool_call", "event_id": "e", "tool": "r\u0435fund", "call_id": "c1", "args": {}},
        {"kind": "tool_result", "event_id": "r", "tool": "r\u0435fund", "call_id": "c1"},
    ]
    assert found(policy, *told) == ["stream_guard_lookalike"]
    again = {"kind": "tool_call", "event_id": "e2", "tool": "refund", "call_id": "c2", "args": {}}
    assert found(policy, *told, again) == ["stream_guard_lookalike", "max"]


def test_the_event_keeps_its_name_as_it_was_written() -> None:
    call = sg.ToolCall(session_id="s", tool="r\u0435fund", args={})
    sg.Guard(sg.parse_policy(POLICY)).check(call)
    assert call.tool == "r\u0435fund"
