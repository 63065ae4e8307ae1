from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_guard.errors import PolicyError
from stream_guard.judge.model import Action, Scope, Severity
from stream_guard.judge.spec import DEFAULT_IDLE, RuleSpec
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry

NO_CALL = {"id": "r", "kind": "no_call", "params": {"tool": "drop"}}


def load_rule(registry: Registry, **keys: Any) -> RuleSpec:
    return load_policy(json.dumps({"rules": [{**NO_CALL, **keys}]}), registry, file="p").rules[0]


def refusals(registry: Registry, source: Any) -> list[str]:
    text = source if isinstance(source, str) else json.dumps(source)
    with pytest.raises(PolicyError) as caught:
        load_policy(text, registry, file="p")
    return [problem.code for problem in caught.value.problems]


def refused_rule(registry: Registry, **keys: Any) -> list[str]:
    return refusals(registry, {"rules": [{**NO_CALL, **keys}]})


def test_a_rule_has_defaults_for_all_but_kind_and_params(registry: Registry) -> None:
    rule = load_rule(registry)
    assert (rule.id, rule.slot, rule.kind) == ("r", "r", "no_call")
    assert (rule.severity, rule.scope, rule.key, rule.then) == (Severity.ERROR, Scope.SESSION, ("session",), None)
    assert (rule.on_error, rule.shadow, rule.cooldown, rule.hold) == ("open", False, None, None)
    assert (rule.when, rule.unless, rule.tags, rule.reason) == (None, None, (), "")


def test_every_key_of_the_native_form_is_read(registry: Registry) -> None:
    text = """
name: everything
version: 2
sessions: {idle: 5m, max_out_of_orderness: 2s}
tool_classes: {write: [save, "@remove"], remove: "delete_*"}
rules:
  - id: full
    kind: no_call
    params: {tool: "@write"}
    when: [{path: tool.args.amount, op: ">", value: 5}]
    unless: {path: labels.env, op: "==", value: test}
    scope: part
    key: [session, args.account, labels.tenant]
    severity: critical
    then: block
    reason: because
    mode: shadow
    on_error: open
    cooldown: 1m
    for: 30s
    tags: [a, b]
    tests: [{events: [], findings: []}]
"""
    policy = load_policy(text, registry, file="p.yaml")
    assert (policy.name, policy.idle, policy.max_out_of_orderness, policy.file) == ("everything", 300, 2, "p.yaml")
    assert policy.tool_classes == {"write": ["save", "@remove"], "remove": ["delete_*"]}
    (rule,) = policy.rules
    tools = rule.rule.tools()
    assert tools is not None
    assert tools.matches("delete_user")
    assert rule.when is not None
    assert rule.unless is not None
    assert (rule.scope, rule.key) == (Scope.PART, ("session", "args.account", "labels.tenant"))
    assert (rule.severity, rule.then, rule.reason) == (Severity.CRITICAL, Action.BLOCK, "because")
    assert (rule.shadow, rule.on_error, rule.cooldown, rule.hold) == (True, "open", 60, 30)
    assert (rule.tags, rule.tests) == (("a", "b"), ({"events": [], "findings": []},))
    assert (rule.place.line, rule.place.column) == (7, 5)


def test_without_sessions_the_defaults_hold(registry: Registry) -> None:
    policy = load_policy("rules: []", registry)
    assert (policy.idle, policy.max_out_of_orderness) == (DEFAULT_IDLE, 0)
    assert load_policy("{sessions: {max_out_of_orderness: 0}, rules: []}", registry).max_out_of_orderness == 0


@pytest.mark.parametrize(
    ("word", "level", "kept"),
    [
        ("info", Severity.INFO, ""),
        ("critical", Severity.CRITICAL, ""),
        ("low", Severity.INFO, "low"),
        ("medium", Severity.WARNING, "medium"),
        ("high", Severity.ERROR, "high"),
    ],
)
def test_severities_of_other_systems_are_mapped_and_kept(
    registry: Registry, word: str, level: Severity, kept: str
) -> None:
    rule = load_rule(registry, severity=word)
    assert (rule.severity, rule.severity_word) == (level, kept)


@pytest.mark.parametrize(
    ("then", "on_error"), [("allow", "open"), ("pause", "closed"), ("block", "closed"), ("terminate_session", "closed")]
)
def test_a_rule_that_stops_things_fails_closed(registry: Registry, then: str, on_error: str) -> None:
    assert load_rule(registry, then=then).on_error == on_error
    assert load_rule(registry, then=then, on_error="open").on_error == "open"


def test_a_key_may_be_one_word(registry: Registry) -> None:
    assert load_rule(registry, key="agent").key == ("agent",)


def test_a_rule_without_an_id_is_named_by_its_number_and_warned_about(registry: Registry) -> None:
    policy = load_policy("rules: [{kind: no_call, params: {tool: a}}, {kind: no_call, params: {tool: b}}]", registry)
    assert [rule.id for rule in policy.rules] == ["rule-0", "rule-1"]
    assert [problem.code for problem in policy.warnings] == ["SG151", "SG151"]
    assert all(problem.warning for problem in policy.warnings)


def test_description_is_another_name_of_reason(registry: Registry) -> None:
    assert load_rule(registry, description="why").reason == "why"
    assert refused_rule(registry, description="why", reason="why") == ["SG103"]
    assert refused_rule(registry, description=5) == ["SG106"]


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"id": ""}, "SG110"),
        ({"id": " r"}, "SG110"),
        ({"id": "a\nb"}, "SG110"),
        ({"id": "\u202eevil"}, "SG110"),
        ({"id": "x" * 201}, "SG110"),
        ({"id": 5}, "SG106"),
        ({"kind": "no_cal"}, "SG108"),
        ({"kind": 5}, "SG106"),
        ({"params": {}}, "SG105"),
        ({"params": []}, "SG106"),
        ({"params": {"tool": "a", "tol": "b"}}, "SG104"),
        ({"params": {"tool": 5}}, "SG115"),
        ({"params": {"tool": []}}, "SG115"),
        ({"params": {"tool": "a("}}, "SG115"),
        ({"params": {"tool": "@writes"}}, "SG115"),
        ({"scope": "global"}, "SG107"),
        ({"severity": "fatal"}, "SG107"),
        ({"severity": ["error"]}, "SG107"),
        ({"then": "stop"}, "SG107"),
        ({"mode": "audit"}, "SG107"),
        ({"on_error": "ignore"}, "SG107"),
        ({"cooldown": 0}, "SG116"),
        ({"cooldown": "five minutes"}, "SG116"),
        ({"for": -1}, "SG116"),
        ({"for": True}, "SG116"),
        ({"tags": "a"}, "SG106"),
        ({"tags": [""]}, "SG107"),
        ({"tests": ["x"]}, "SG106"),
        ({"reason": "x" * 2001}, "SG107"),
        ({"when": None}, "SG106"),
        ({"wen": []}, "SG104"),
        ({"hold": 5}, "SG104"),
        ({"key": []}, "SG107"),
        ({"key": "tenant"}, "SG117"),
        ({"key": ["session", "session"]}, "SG117"),
        ({"key": "labels."}, "SG117"),
        ({"key": "args"}, "SG117"),
        ({"key": "args..x"}, "SG117"),
        ({"key": "labels.a.b"}, "SG117"),
        ({"key": "tool.foo"}, "SG117"),
        ({"key": "nope.x"}, "SG117"),
        ({"key": "agent", "scope": "part"}, "SG117"),
        ({"key": ["labels.x"], "scope": "run"}, "SG117"),
        ({"key": ["session", "request.user"]}, "SG117"),
    ],
)
def test_a_wrong_key_of_a_rule_is_one_problem(registry: Registry, keys: dict[str, Any], code: str) -> None:
    assert refused_rule(registry, **keys) == [code]


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ("5", ["SG118"]),
        ("[]", ["SG118"]),
        ("[5]", ["SG118"]),
        ("name: x", ["SG105"]),
        ("rules:", ["SG106"]),
        ("rules: 5", ["SG106"]),
        ("rules: {a: 1}", ["SG106"]),
        ("rules: [5]", ["SG106"]),
        ("{rules: [], rulez: []}", ["SG152", "SG104"]),
        ("{version: 3, rules: []}", ["SG107", "SG152"]),
        ("{name: '', rules: []}", ["SG107", "SG152"]),
        ("{sessions: {idle: 0}, rules: []}", ["SG116", "SG152"]),
        ("{sessions: {idlex: 5}, rules: []}", ["SG104", "SG152"]),
        ("{sessions: {max_out_of_orderness: -1}, rules: []}", ["SG116", "SG152"]),
        ("{apiVersion: v9, rules: []}", ["SG118", "SG152"]),
        ("{apiVersion: [], rules: []}", ["SG118", "SG152"]),
        ("{tool_classes: {a: ['@a']}, rules: []}", ["SG115", "SG152"]),
        ("{tool_classes: {a: ['@b'], b: ['@a']}, rules: []}", ["SG115", "SG115", "SG152"]),
        ("{tool_classes: {a: ['@nope']}, rules: []}", ["SG115", "SG152"]),
        ("{tool_classes: {'@a': [x]}, rules: []}", ["SG115", "SG152"]),
        ("{tool_classes: {a: []}, rules: []}", ["SG107", "SG152"]),
        ("{tool_classes: {a: 'x('}, rules: []}", ["SG115", "SG152"]),
    ],
)
def test_a_wrong_frame_is_refused(registry: Registry, source: str, codes: list[str]) -> None:
    assert refusals(registry, source) == codes


def test_a_broken_tool_class_is_not_blamed_on_the_rules_that_use_it(registry: Registry) -> None:
    text = "{tool_classes: {a: ['x('], b: 5}, rules: [{id: r, kind: no_call, params: {tool: ['@a']}}]}"
    assert refusals(registry, text) == ["SG115", "SG106"]


def test_tool_classes_cannot_grow_without_bound(registry: Registry) -> None:
    classes: dict[str, list[str]] = {f"c{n}": [f"@c{n + 1}"] * 10 for n in range(12)}
    codes = refusals(registry, {"tool_classes": {**classes, "c12": ["x"]}, "rules": [NO_CALL]})
    assert set(codes) == {"SG120"}
    chain = {f"c{n}": [f"@c{n + 1}"] for n in range(5000)}
    assert set(refusals(registry, {"tool_classes": {**chain, "c5000": ["x"]}, "rules": [NO_CALL]})) <= {
        "SG115",
        "SG120",
    }


def test_two_rules_of_one_id_are_refused(registry: Registry) -> None:
    text = "rules:\n  - {id: a, kind: no_call, params: {tool: x}}\n  - {id: a, kind: no_call, params: {tool: y}}\n"
    with pytest.raises(PolicyError) as caught:
        load_policy(text, registry, file="p")
    (problem,) = caught.value.problems
    assert (problem.place.line, problem.place.column, problem.code) == (3, 10, "SG109")
    assert "line 2" in problem.message


def test_one_slip_is_one_problem(registry: Registry) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy("rules: [{id: r, kind: must_call_before, params: {firstt: a, then: b}}]", registry)
    (problem,) = caught.value.problems
    assert 'did you mean "first"?' in problem.message


def test_what_is_wrong_in_a_file_with_an_alias_points_at_the_anchor(registry: Registry) -> None:
    text = "rules:\n  - {id: a, kind: no_call, params: &p {tol: x}}\n  - {id: b, kind: no_call, params: *p}\n"
    with pytest.raises(PolicyError) as caught:
        load_policy(text, registry)
    assert [(problem.place.line, problem.place.column) for problem in caught.value.problems] == [(2, 40), (2, 40)]


def test_files_named_by_rules_are_looked_for_beside_the_policy(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text('{"type": "object"}')
    file = tmp_path / "p.yaml"
    text = "rules: [{id: r, kind: must_match_json_schema, params: {schema_path: answer.json}}]"
    file.write_text(text)
    assert len(load_policy(file, registry).rules) == 1
    assert load_policy(text, registry, folder=tmp_path).version == load_policy(file, registry).version
    with pytest.raises(PolicyError, match="schema_path"):
        load_policy(text, registry)


def test_a_name_given_as_text_is_told_to_be_a_path(registry: Registry) -> None:
    with pytest.raises(PolicyError, match="pass a Path"):
        load_policy("policies/refunds.yaml", registry)
