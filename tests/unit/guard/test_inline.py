"""The guard decides before a tool runs, on the same findings as everyone else."""

from __future__ import annotations

from typing import Any

import pytest

import stream_guard as sg
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action
from stream_guard.judge.spec import Policy
from stream_guard.registry import build_registry
from stream_guard.testing import events, rule_spec

KINDS = build_registry().kinds


def guard(then: Action | None = Action.BLOCK, **engine: Any) -> Guard:
    rule = rule_spec(KINDS["no_call"], {"tool": "drop"}, then=then, reason="never", **engine)
    return Guard(Policy(rules=(rule,), version="v1"))


def call(tool: str, call_id: str = "c1", session: str = "s") -> sg.ToolCall:
    return sg.ToolCall(session_id=session, tool=tool, call_id=call_id, args={})


def test_a_call_that_no_rule_minds_is_allowed() -> None:
    decision = guard().check(call("read"))
    assert (decision.action, decision.findings, decision.policy_version) == (Action.ALLOW, (), "v1")


def test_a_call_that_a_rule_blocks_is_blocked_with_its_reason() -> None:
    decision = guard().check(call("drop"))
    assert (decision.action, decision.reason, len(decision.findings)) == (Action.BLOCK, "never", 1)


def test_a_call_that_its_turn_announced_is_blocked_all_the_same() -> None:
    watched = guard()
    [turn] = events([{"turn": None, "calls": [{"tool": "drop", "id": "c1"}]}])
    assert len(watched.observe(turn)) == 1
    assert watched.check(call("drop")).action is Action.BLOCK


def test_the_findings_of_one_announced_call_do_not_block_another() -> None:
    watched = guard()
    [turn] = events([{"turn": None, "calls": [{"tool": "drop", "id": "c1"}, {"tool": "read", "id": "c2"}]}])
    watched.observe(turn)
    assert watched.check(call("read", "c2")).action is Action.ALLOW
    assert watched.check(call("drop", "c1")).action is Action.BLOCK


def test_a_finding_without_an_action_does_not_block() -> None:
    decision = guard(then=None).check(call("drop"))
    assert (decision.action, len(decision.findings)) == (Action.ALLOW, 1)


def test_a_shadow_rule_does_not_block() -> None:
    assert guard(shadow=True).check(call("drop")).action is Action.ALLOW


def test_the_strictest_action_wins() -> None:
    rules = tuple(
        rule_spec(KINDS["no_call"], {"tool": "drop"}, rule_id=action.word, then=action)
        for action in (Action.PAUSE, Action.TERMINATE_SESSION, Action.ALLOW, Action.BLOCK)
    )
    decision = Guard(Policy(rules=rules, version="v1")).check(call("drop"))
    assert (decision.action, len(decision.findings)) == (Action.TERMINATE_SESSION, 4)


class Broken(sg.Rule[sg.Params, sg.NoState]):
    """Every call breaks this rule."""

    kind = "broken"

    def on_tool_call(self, call: sg.ToolCall, state: sg.NoState) -> None:
        raise RuntimeError("no")


@pytest.mark.parametrize(("on_error", "action"), [("open", Action.ALLOW), ("closed", Action.BLOCK)])
def test_a_gate_that_cannot_judge_is_open_or_closed_as_the_rule_says(on_error: str, action: Action) -> None:
    policy = Policy(rules=(rule_spec(Broken, {}, then=Action.BLOCK, on_error=on_error),), version="v1")
    watched = Guard(policy)
    assert [watched.check(call("x", str(number))).action for number in range(3)] == [action] * 3


def test_arguments_nested_without_end_are_judged_and_known_again() -> None:
    def deep() -> sg.Json:
        args: sg.Json = {}
        for _ in range(5000):
            args = {"inner": args}
        return args

    watched = guard()
    for tool, action in (("drop", Action.BLOCK), ("drop", Action.BLOCK), ("read", Action.ALLOW)):
        attempt = sg.ToolCall(session_id="s", tool=tool, call_id="c1", args=deep())
        assert watched.check(attempt).action is action
    assert watched.counts.merged_calls == 1
