"""``then: modify``: what the tool gets, what the audit says and what a replay finds are the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.guard.gate import Gate
from stream_guard.history.database import SqliteDatabase
from stream_guard.history.records import digest_of
from stream_guard.judge.model import Action
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

REGISTRY = build_registry()
POLICY = """
rules:
  - id: cap
    kind: no_call
    params: {tool: refund}
    when: {path: tool.args.amount, op: ">", value: 100}
    then: modify
    modify: [{path: amount, cap: 100}, {path: capped, set: true}]
  - id: keys
    kind: forbidden_text
    params: {where: tool_args, pattern: 'sk-[a-z]+'}
    then: modify
    modify: [{mask: 'sk-[a-z]+'}]
  - {id: three, kind: max_calls, params: {tool: refund, n: 3}, then: block}
  - {id: person, kind: no_call, params: {tool: pay}, then: pause}
  - id: total
    kind: max_aggregate
    params: {tool: refund, measure: sum, path: tool.args.amount, over: 250}
    then: block
"""


class Kept:
    """A gate, and the events that it emitted."""

    def __init__(self, gate: Gate, emitted: list[sg.Event]) -> None:
        self.gate, self.emitted = gate, emitted

    def check(self, tool: str, args: Any, *, may_modify: bool = True, event_id: str = "") -> Any:
        call = sg.ToolCall(session_id="s1", tool=tool, args=args, event_id=event_id)
        return self.gate.check(call, may_modify=may_modify)

    def audited(self) -> list[dict[str, Any]]:
        rows = self.gate.database.read("SELECT body FROM sg_audit ORDER BY number")
        return [record for (body,) in rows if (record := json.loads(body)).get("what") == "decision"]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    database = SqliteDatabase(tmp_path / "history.db")
    emitted: list[sg.Event] = []
    yield Kept(Gate(load_policy(POLICY, REGISTRY), database, emit=emitted.append), emitted)
    database.close()


def test_what_the_tool_got_what_the_audit_says_and_what_a_replay_finds_are_the_same(kept: Kept) -> None:
    asked = {"amount": 250, "note": "key sk-abc"}
    ruling = kept.check("refund", asked)
    ran = {"amount": 100, "capped": True, "note": "key [masked]"}
    assert (ruling.action, ruling.args, ruling.modified_by) == (Action.MODIFY, ran, ("cap", "keys"))
    [record] = kept.audited()
    assert record["action"] == "modify"
    assert record["arguments_digest"] == digest_of(ran)
    assert (record["asked_digest"], record["modified_by"]) == (digest_of(asked), ["cap", "keys"])
    call, decision = kept.emitted
    assert isinstance(call, sg.ToolCall)
    assert isinstance(decision, sg.GateDecision)
    assert (call.args, decision.action) == (ran, "allow")
    assert sg.evaluate(kept.emitted, load_policy(POLICY, REGISTRY)) == []
    assert "sk-abc" not in json.dumps(kept.audited())


def test_a_replay_of_what_ran_counts_what_the_gate_counted(kept: Kept) -> None:
    answers = [kept.check("refund", {"amount": 120}).action for _ in range(4)]
    assert answers == [Action.MODIFY, Action.MODIFY, Action.BLOCK, Action.BLOCK]  # 100 and 100, and no third
    found = sg.evaluate(kept.emitted, load_policy(POLICY, REGISTRY))
    assert [finding.rule_id for finding in found] == ["total", "three", "total"]


def test_a_caller_that_cannot_change_a_call_is_told_what_would_pass(kept: Kept) -> None:
    ruling = kept.check("refund", {"amount": 120}, may_modify=False)
    assert (ruling.action, ruling.args) == (Action.BLOCK, None)
    assert "to pass: amount of at most 100, capped set to true" in ruling.advice
    assert kept.check("refund", {"amount": 100}, may_modify=False).action is Action.ALLOW


def test_a_change_that_does_not_mend_the_call_is_a_block(kept: Kept) -> None:
    ruling = kept.check("refund", {"amount": "250"})
    assert ruling.action is Action.BLOCK


def test_a_person_approves_the_arguments_that_run(kept: Kept) -> None:
    asked = {"to": "bob", "note": "sk-abc"}
    paused = kept.check("pay", asked, event_id="e1")
    assert paused.action is Action.PAUSE
    [review] = kept.gate.reviews.listing("open")
    assert review.arguments == {"to": "bob", "note": "[masked]"}
    kept.gate.reviews.approve(review.id, by="ada", arguments_digest=review.arguments_digest)
    again = kept.check("pay", asked, event_id="e1")
    assert (again.action, again.args) == (Action.MODIFY, {"to": "bob", "note": "[masked]"})
    assert [record["action"] for record in kept.audited()] == ["pause", "modify"]


def test_the_same_question_gets_the_same_answer_and_counts_once(kept: Kept) -> None:
    answers = {str(kept.check("refund", {"amount": 120}, event_id="e1").args) for _ in range(5)}
    assert answers == {"{'amount': 100, 'capped': True}"}


def test_a_guard_in_process_rewrites_too() -> None:
    guard = sg.Guard(load_policy(POLICY, REGISTRY))
    call = sg.ToolCall(session_id="s1", tool="refund", args={"amount": 250})
    decision = guard.check(call, may_modify=True)
    assert (decision.action, decision.args) == (Action.MODIFY, {"amount": 100, "capped": True})
    assert call.args == {"amount": 250}
    assert guard.check(call).action is Action.BLOCK


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("then: modify", "needs"),
        ("then: block, modify: [{path: a, drop: true}]", "write then: modify"),
        ("then: modify, modify: [{path: a}]", "one of cap, mask, drop and set"),
        ("then: modify, modify: [{path: a, cap: 1, drop: true}]", "one of cap, mask, drop and set"),
        ("then: modify, modify: [{cap: 1}]", "which argument"),
        ("then: modify, modify: [{path: a, mask: '('}]", "mask"),
        ("then: modify, modify: [{path: a, halve: 1}]", "halve"),
    ],
)
def test_what_is_wrong_with_a_change_is_said_at_load(rule: str, problem: str) -> None:
    with pytest.raises(sg.PolicyError, match=problem):
        load_policy(f"rules: [{{id: r, kind: no_call, params: {{tool: x}}, {rule}}}]", REGISTRY)


def test_a_policy_that_modifies_is_written_as_it_was_read() -> None:
    from stream_guard.policy.convert import to_native

    policy = load_policy(POLICY, REGISTRY)
    again = load_policy(json.dumps(to_native(policy)), REGISTRY)
    assert (again.version, again.rules[0].changes) == (policy.version, policy.rules[0].changes)
