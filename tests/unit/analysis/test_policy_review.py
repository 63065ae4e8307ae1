"""Lint tells what is odd about a policy as a whole: dead rules, contradictions, duplicates, tautologies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from stream_guard.analysis.breaking import in_words, shortest_break
from stream_guard.analysis.policy_review import odd_rules
from stream_guard.cli.app import app
from stream_guard.errors import PolicyError
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.testing import events
from stream_guard.testing.running import find

REGISTRY = build_registry()

ODD = """\
rules:
  - {id: dead, kind: no_call, params: {tool: isue_refund}}
  - {id: must, kind: must_call, params: {tool: issue_refund}}
  - {id: never, kind: no_call, params: {tool: issue_refund}}
  - {id: twice, kind: must_call, params: {tool: issue_refund}, severity: info, reason: again}
  - {id: tautology, kind: ltl_formula, params: {formula: "G (tool_call:a -> F (tool_call:a | true))"}}
"""


def odd(*rules: str) -> set[tuple[str, str]]:
    listed = "".join(f"  - {{id: r{at}, {rule}}}\n" for at, rule in enumerate(rules))
    policy = load_policy(f"rules:\n{listed}", REGISTRY)
    return {(problem.rule_id, problem.code) for problem in odd_rules(policy, events)}


def call(tool: str, kind: str = "no_call", **more: str) -> str:
    rest = "".join(f", {key}: {value}" for key, value in more.items())
    return f"kind: {kind}, params: {{tool: {tool!r}}}{rest}"


def order(first: str, second: str) -> str:
    return f"kind: must_call_before, params: {{first: {first}, second: {second}}}"


def formula(text: str) -> str:
    return f"kind: ltl_formula, params: {{formula: '{text}'}}"


def above(amount: int) -> str:
    return f"[{{path: tool.args.amount, op: '>', value: {amount}}}]"


def test_a_dead_rule_a_duplicate_and_a_tautology_are_told(tmp_path: Path) -> None:
    policy, recording = tmp_path / "p.yaml", tmp_path / "e.jsonl"
    policy.write_text(ODD)
    trace: list[dict[str, Any]] = [{"turn": "so"}, {"call": "issue_refund"}, {"call": "a"}]
    recording.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events(trace)))
    without = CliRunner().invoke(app, ["lint", str(policy), "--format", "json"])
    told = {(said["rule"], said["code"]) for said in json.loads(without.stdout)["problems"]}
    assert told == {("twice", "SG154"), ("tautology", "SG157")}
    assert without.exit_code == 0  # warnings
    result = CliRunner().invoke(app, ["lint", str(policy), "--format", "json", "--against", str(recording)])
    data = json.loads(result.stdout)
    assert told | {("dead", "SG158")} == {(said["rule"], said["code"]) for said in data["problems"]}
    by_rule = {said["rule"]: said for said in data["rules"]}
    assert (by_rule["never"]["findings"], by_rule["never"]["broken_by"]) == (1, [{"call": "issue_refund", "args": {}}])
    assert by_rule["tautology"]["broken_by"] is None
    table = CliRunner().invoke(app, ["lint", str(policy), "--against", str(recording)]).stdout
    assert 'rule "never": 1 findings in 1 of 1 sessions; broken by: call issue_refund' in table


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ([call("x"), call("x", severity="info")], ("r1", "SG154")),
        ([call("x", then="allow"), call("x", then="block")], ("r1", "SG155")),
        ([call("x"), "params: {tool: x}, kind: no_call, key: [session]"], ("r1", "SG154")),
        ([formula("F (tool_call:x | !tool_call:x)")], ("r0", "SG157")),
        ([formula("F (tool_call:x & !tool_call:x)")], ("r0", "SG157")),
        ([formula("(G tool_call:x) & F !tool_call:x")], ("r0", "SG157")),
        ([call("x", when="{any_of: [" + above(5)[1:-1] + ", {not: " + above(5) + "}]}")], ("r0", "SG157")),
        ([call("x", when="[" + above(5)[1:-1] + ", {not: " + above(5) + "}]")], ("r0", "SG157")),
    ],
)
def test_odd_rules_are_told(rules: list[str], told: tuple[str, str]) -> None:
    assert told in odd(*rules)


@pytest.mark.parametrize(
    "rules",
    [
        [order("a", "t"), order("b", "t"), call("t", "must_call"), call("u")],
        [call("x", when=above(100), severity="critical"), call("x", when=above(10), severity="warning")],
        [call("x", when=above(100), then="block"), call("x", when=above(10), then="pause")],
        [call("x"), call("y")],
        [call("*")],
        [order("a", "b"), order("b", "c"), order("c", "d")],
        [formula("G (tool_call:x -> F tool_call:y)"), formula("!tool_call:y U tool_call:x")],
        [call("x", "must_call"), call("x", "must_call_only")],
        [call("x", key="[agent]"), call("x")],
    ],
)
def test_sound_rules_are_left_alone(rules: list[str]) -> None:
    assert odd(*rules) == set()


@pytest.mark.parametrize(
    "when",
    [
        "[{path: tool.args.n, op: '==', value: 5}, {path: tool.args.n, op: '>', value: 10}]",
        "[{path: tool.args.n, op: in, value: [a, b]}, {path: tool.args.n, op: in, value: [c]}]",
        "[{path: tool.args.n, op: in, value: [a]}, {path: tool.args.n, op: not_in, value: [a]}]",
        "[{path: tool.args.n, op: contains, value: a}, {path: tool.args.n, op: not_contains, value: a}]",
        "[{path: tool.args.n, op: exists, value: false}, {path: tool.args.n, op: '==', value: 1}]",
    ],
)
def test_a_condition_that_is_never_true_is_refused(when: str) -> None:
    with pytest.raises(PolicyError, match="SG113"):
        load_policy(f"rules: [{{id: a, {call('x', when=when)}}}]", REGISTRY)


def test_every_kind_is_broken_by_a_trace_no_longer_than_its_own_example() -> None:
    examples = {kind: example for kind, rule in REGISTRY.kinds.items() for example in rule.examples if example.hits}
    rules = [{"id": kind, "kind": kind, "params": example.params} for kind, example in examples.items()]
    policy = load_policy(json.dumps({"rules": rules}), REGISTRY)
    for spec in policy.rules:
        trace = shortest_break(policy, spec, events)
        assert trace is not None, spec.id
        assert len(trace) <= max(len(examples[spec.id].trace), 1), (spec.id, in_words(trace))


def test_the_shortest_trace_is_no_longer_than_it_must_be() -> None:
    text = "rules: [{id: r, kind: max_calls, params: {tool: x, n: 30}, when: " + above(7) + "}]"
    policy = load_policy(text, REGISTRY)
    trace = shortest_break(policy, policy.rules[0], events)
    assert trace is not None
    assert in_words(trace) == 'call x {"amount": 8} (31 times)'
    assert [at for at, _ in find(policy, trace)] == [30]


def test_a_policy_of_many_rules_is_compared_by_writing_only() -> None:
    rules = [call(f"t{at}") for at in range(61)]
    assert odd(*rules, call("t0")) == {("r61", "SG154")}
