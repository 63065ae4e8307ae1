"""Rule sets in the seed's shape load as they are, and every mistake in one is said at once."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from stream_guard.errors import PolicyError, Problem
from stream_guard.judge.model import Severity
from stream_guard.judge.spec import Policy
from stream_guard.policy.convert import to_yaml
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

REGISTRY = build_registry()

PLANTED = """{"agents": [
 {"id": "root", "parent": null, "execution_mode": "request", "anomalyControl": true, "operations": ["a"], "rules": [
  {"id": "p", "when": {"tool_name_in": ["a", "zz"]}, "then": "pause"},
  {"id": "p", "when": {"arg_gtt": {"path": "a", "value": 1}}, "then": "block"},
  {"id": "q", "when": {"any_of": [{"not": {"arg_regex": {"path": "a..b", "pattern": "("}}}]}, "then": "blocks"},
  {"id": "c", "when": {"call_count_in_run_gt": {"value": -1}}, "then": "block"},
  {"id": "w", "when": {"call_count_in_window_gt": {"value": 1, "windowSeconds": 0}}, "then": "block", "bogus": 1},
  {"when": {"tool_name_in": []}, "then": "block"},
  {"id": "nothing"}
 ]},
 {"id": "root", "parent": "rot", "executionMode": "sometimes", "anomalyControl": 1, "rules": {}, "color": 1},
 7
]}"""


def load(document: Any) -> Policy:
    text = document if isinstance(document, str) else json.dumps(document)
    return load_policy(text, REGISTRY, file="rules.json")


def test_every_planted_mistake_is_listed_at_once_at_its_line() -> None:
    with pytest.raises(PolicyError) as caught:
        load(PLANTED)
    assert [(problem.place.line, problem.code) for problem in caught.value.problems] == [
        (3, "SG153"),  # a warning: no agent may try zz
        (3, "SG124"),  # pause in request mode
        (4, "SG109"),
        (4, "SG104"),
        (5, "SG112"),
        (5, "SG114"),
        (5, "SG107"),
        (6, "SG107"),
        (7, "SG107"),
        (7, "SG104"),
        (8, "SG105"),
        (8, "SG107"),
        (9, "SG105"),
        (9, "SG105"),
        (11, "SG109"),
        (11, "SG124"),
        (11, "SG107"),
        (11, "SG106"),
        (11, "SG106"),
        (11, "SG104"),
        (12, "SG106"),
    ]


def test_agents_may_have_rules_of_one_id_each_with_its_own_memory() -> None:
    rule = {"id": "r", "when": {"tool_name_in": ["t"]}, "then": "block"}
    policy = load({"agents": [{"id": "a", "rules": [rule]}, {"id": "b", "rules": [rule]}]})
    assert [(spec.id, spec.slot, spec.agent) for spec in policy.rules] == [("r", "r", "a"), ("r", "b/r", "b")]


def test_what_a_rule_does_decides_how_bad_its_findings_are() -> None:
    actions = ("allow", "pause", "block", "terminate_session")
    policy = load([{"id": then, "when": {"tool_name_in": ["t"]}, "then": then} for then in actions])
    assert [spec.severity for spec in policy.rules] == list(Severity)


def test_rules_of_a_version_whose_control_is_off_are_checked_and_only_watched() -> None:
    rule = {"id": "r", "when": {"tool_name_in": ["t"]}, "then": "block"}
    off = {"agents": [{"id": "a", "anomalyControl": False, "rules": [rule]}]}
    assert [spec.shadow for spec in load(off).rules] == [True]


def test_one_version_alone_has_its_list_and_its_mode() -> None:
    rules = [{"id": "r", "when": {"tool_name_in": ["t"]}, "then": "block"}]
    policy = load({"id": "pay@3", "executionMode": "Sub-agent", "operations": ["t"], "rules": rules})
    [(name, agent)] = policy.agents.items()
    assert (name, agent.operations, agent.execution_mode) == ("pay@3", frozenset({"t"}), "sub_agent")


def test_what_goes_beyond_the_seed_is_taken_too() -> None:
    rule = {"id": "r", "when": {"arg_gt": {"path": "n", "value": 1}}, "then": "block", "coerce": True}
    [spec] = load([{**rule, "enforce_window": "inline", "on_error": "open"}]).rules
    assert (spec.rule.params.coerce, spec.rule.params.enforce_window, spec.on_error) == (True, "inline", "open")


def test_a_rule_set_becomes_native_yaml_of_the_same_version() -> None:
    rule = {"id": "r", "when": {"not": {"tool_name_regex": {"pattern": "^a"}}}, "then": "pause", "reason": "why"}
    policy = load({"agents": [{"id": "a", "execution_mode": "hitl", "operations": [], "rules": [rule]}]})
    again = load_policy(to_yaml(policy), REGISTRY, file="native.yaml")
    assert again.version == policy.version


def test_a_native_rule_that_forgot_its_kind_is_still_a_native_rule() -> None:
    with pytest.raises(PolicyError, match='a rule needs "kind"'):
        load({"rules": [{"id": "r", "params": {"tool": "t"}, "then": "block"}]})


JUNK: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"a": 1}, "(")


def spoiled(value: Any, chance: Random) -> Any:
    if chance.random() < 0.04:
        return chance.choice(JUNK)
    if isinstance(value, dict):
        return {key if chance.random() > 0.02 else f"{key}z": spoiled(item, chance) for key, item in value.items()}
    return [spoiled(item, chance) for item in value] if isinstance(value, list) else value


def test_whatever_is_spoiled_the_file_loads_or_says_why() -> None:
    chance = Random(3)
    whole = json.loads(PLANTED)["agents"][0]
    problems: list[Problem] = []
    for _ in range(200):
        try:
            load({"agents": [spoiled(whole, chance), spoiled({**whole, "id": "b", "parent": "root"}, chance)]})
        except PolicyError as error:
            problems += error.problems
    assert len(problems) > 1000
    assert [problem for problem in problems if problem.code == "SG123"] == []
