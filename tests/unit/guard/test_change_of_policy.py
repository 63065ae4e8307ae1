"""A guard that goes on under another policy: what is remembered, what is forgotten, what is asked anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stream_guard as sg
from stream_guard.guard.gate import Gate
from stream_guard.guard.inline import Guard
from stream_guard.history.database import open_database
from stream_guard.judge.model import Action
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

REGISTRY = build_registry()
ORDER = "{id: order, kind: must_call_before, params: {first: confirm, second: refund}, then: block}"
ONCE = "{id: once, kind: must_call_once, params: {tool: close}, then: block}"
NO_DROP = "{id: no-drop, kind: no_call, params: {tool: drop}, then: block}"
ASK = "{id: ask, kind: no_call, params: {tool: wire}, then: pause}"


def policy_of(*rules: str) -> Policy:
    return load_policy("rules:\n" + "".join(f"  - {rule}\n" for rule in rules), REGISTRY)


def call(tool: str, call_id: str = "", session: str = "s") -> sg.ToolCall:
    return sg.ToolCall(session_id=session, tool=tool, call_id=call_id, args={})


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    database = open_database(str(tmp_path / "history.db"))
    yield Gate(policy_of(ORDER, ONCE, ASK), database)
    database.close()


def change(gate: Gate, *rules: str) -> None:
    gate.use(gate.guard.judge_for(policy_of(*rules)))


def test_rules_that_stay_keep_their_states_wherever_they_stand() -> None:
    guard = Guard(policy_of(ORDER, ONCE))
    for tool in ("confirm", "close"):
        assert guard.check(call(tool)).action is Action.ALLOW
    guard.use(guard.judge_for(policy_of(NO_DROP, ONCE, ORDER)))
    assert guard.check(call("refund")).action is Action.ALLOW
    assert guard.check(call("refund", session="t")).action is Action.BLOCK
    assert guard.check(call("close")).action is Action.BLOCK
    decision = guard.check(call("drop"))
    assert (decision.action, decision.rule_ids) == (Action.BLOCK, ("no-drop",))
    assert guard.counts.state_resets == 0


def test_a_rule_that_was_edited_starts_afresh_and_that_is_counted() -> None:
    guard = Guard(policy_of(ORDER))
    guard.check(call("confirm"))
    guard.use(guard.judge_for(policy_of(ORDER.replace("confirm", "agree"))))
    assert guard.check(call("refund")).action is Action.BLOCK
    assert guard.counts.state_resets == 1


def test_a_call_that_was_announced_more_than_once_is_judged_by_the_policy_in_force() -> None:
    guard = Guard(policy_of(ORDER))
    blocks = [{"type": "tool_use", "name": "drop", "input": {}} for _ in range(3)]
    guard.observe(sg.Turn(session_id="s", response={"content": blocks}))
    guard.use(guard.judge_for(policy_of(ORDER, NO_DROP)))
    for call_id in ("c1", "c1", "c2"):
        assert guard.check(call("drop", call_id)).action is Action.BLOCK


def test_coverage_and_obligations_are_those_of_the_policy_in_force() -> None:
    guard = Guard(policy_of(ORDER))
    assert guard.check(call("drop")).rules.checked == ()
    assert guard.open_obligations("s") == []
    guard.use(guard.judge_for(policy_of(ONCE, NO_DROP)))
    decision = guard.check(call("drop"))
    assert (decision.rules.checked, decision.policy_version) == (("no-drop",), policy_of(ONCE, NO_DROP).version)
    assert [finding.rule_id for finding in guard.open_obligations("s")] == ["once"]


def test_an_answer_of_the_old_policy_is_none_of_the_new_one(gate: Gate) -> None:
    assert gate.check(call("drop", "c1")).action is Action.ALLOW
    assert gate.check(call("refund", "c2")).action is Action.BLOCK
    change(gate, NO_DROP)
    assert gate.check(call("drop", "c1")).action is Action.BLOCK
    assert gate.check(call("refund", "c2")).action is Action.ALLOW
    change(gate, ORDER, ONCE, ASK)
    assert gate.check(call("refund", "c2")).action is Action.BLOCK


def test_an_announced_call_is_judged_by_the_policy_that_is_there_when_it_is_asked_about(gate: Gate) -> None:
    block = {"type": "tool_use", "id": "c1", "name": "drop", "input": {}}
    gate.observe(sg.Turn(session_id="s", response={"content": [block]}))
    change(gate, NO_DROP)
    assert gate.check(call("drop", "c1")).action is Action.BLOCK


def test_an_approval_under_the_old_policy_lets_nothing_through_under_the_new_one(gate: Gate) -> None:
    old = gate.check(call("wire", "c1")).review
    assert old is not None
    gate.reviews.approve(old.id, by="ada")
    change(gate, ASK, NO_DROP)
    asked = gate.check(call("wire", "c1"))
    assert asked.review is not None
    assert (asked.action, asked.review.id != old.id) == (Action.PAUSE, True)
    assert asked.review.policy_version == gate.policy.version
    voided = gate.reviews.get(old.id)
    assert (voided and voided.status) == "void"
    gate.reviews.approve(asked.review.id, by="ada")
    assert gate.check(call("wire", "c1")).action is Action.ALLOW


def test_a_session_that_was_ended_stays_ended_under_a_policy_without_rules(gate: Gate) -> None:
    change(gate, NO_DROP.replace("block", "terminate_session"))
    assert gate.check(call("drop")).action is Action.TERMINATE_SESSION
    gate.use(gate.guard.judge_for(load_policy("rules: []", REGISTRY)))
    assert gate.check(call("read")).action is Action.TERMINATE_SESSION
    assert gate.check(call("read", session="t")).action is Action.ALLOW
