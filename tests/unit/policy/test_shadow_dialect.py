from __future__ import annotations

import json
from typing import Any

import pytest

from stream_guard.errors import PolicyError
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry
from stream_guard.settings import PluginSettings

VERSION = "shadow.dev/v1alpha1"
NO_CALL = {"id": "r", "kind": "no_call", "params": {"tool": "drop"}}


def load(registry: Registry, data: Any) -> Policy:
    return load_policy(json.dumps(data), registry, file="p")


def shadow(registry: Registry, *rules: Any) -> Policy:
    return load(registry, {"apiVersion": VERSION, "rules": list(rules)})


def refusals(registry: Registry, data: Any) -> list[tuple[int, int, str]]:
    with pytest.raises(PolicyError) as caught:
        load_policy(data if isinstance(data, str) else json.dumps(data), registry)
    return [(problem.place.line, problem.place.column, problem.code) for problem in caught.value.problems]


def test_three_ways_to_write_a_policy_mean_the_same(registry: Registry) -> None:
    versions = {
        load(registry, form).version
        for form in ({"apiVersion": VERSION, "rules": [NO_CALL]}, {"rules": [NO_CALL]}, [NO_CALL])
    }
    assert len(versions) == 1


def test_rules_may_share_an_id_and_are_kept_apart(registry: Registry) -> None:
    policy = shadow(registry, NO_CALL, {**NO_CALL, "id": "r#2"}, NO_CALL, NO_CALL)
    assert [rule.id for rule in policy.rules] == ["r", "r#2", "r", "r"]
    slots = [rule.slot for rule in policy.rules]
    assert len(set(slots)) == 4
    assert slots[0] == "r"


def test_ids_are_made_up_from_zero_or_turned_into_text(registry: Registry) -> None:
    nameless = {"kind": "no_call", "params": {"tool": "x"}}
    policy = shadow(registry, nameless, {**nameless, "id": None}, {**nameless, "id": ""}, {**nameless, "id": 7})
    assert [rule.id for rule in policy.rules] == ["rule-0", "rule-1", "rule-2", "7"]
    assert [problem.code for problem in policy.warnings] == ["SG151"] * 3


def test_keys_without_a_value_are_as_good_as_absent(registry: Registry) -> None:
    (rule,) = shadow(registry, {**NO_CALL, "when": None, "severity": None, "description": None}).rules
    assert rule.when is None


def test_the_original_names_of_parameters_are_read(registry: Registry) -> None:
    policy = shadow(
        registry,
        {"id": "a", "kind": "must_call_before", "params": {"first": "x", "then": "y"}},
        {"id": "b", "kind": "max_turns", "params": {"limit": 3}},
        {"id": "c", "kind": "max_total_tokens", "params": {"limit": 3}},
        {"id": "d", "kind": "required_stop_reason", "params": {"allowed": "end_turn"}},
    )
    assert policy.rules[3].rule.params.allowed == ["end_turn"]


def test_a_bare_string_of_stop_reasons_is_refused_in_the_native_form(registry: Registry) -> None:
    rule = {"id": "d", "kind": "required_stop_reason", "params": {"allowed": "end_turn"}}
    assert [code for _, _, code in refusals(registry, {"rules": [rule]})] == ["SG106"]


def test_unknown_versions_are_refused(registry: Registry) -> None:
    assert refusals(registry, '{"apiVersion": "shadow.dev/v2", "rules": [{"kind": "x"}]}') == [
        (1, 16, "SG118"),
        (1, 52, "SG108"),
    ]


def test_a_shadow_policy_without_rules_is_refused(registry: Registry) -> None:
    assert [code for _, _, code in refusals(registry, {"apiVersion": VERSION})] == ["SG105"]
    assert [code for _, _, code in refusals(registry, {"apiVersion": VERSION, "rules": {}})] == ["SG106"]


def test_problems_of_a_bare_list_stand_where_they_are_written(registry: Registry) -> None:
    text = "- id: a\n  kind: no_call\n  params: {tol: x}\n- 5\n- id: b\n  kind: must_dance\n"
    assert refusals(registry, text) == [(3, 12, "SG104"), (4, 3, "SG106"), (6, 9, "SG108")]


def test_without_the_pack_the_dialect_is_unknown() -> None:
    bare = build_registry(PluginSettings(block=("dialects",)))
    assert [code for _, _, code in refusals(bare, {"apiVersion": VERSION, "rules": [NO_CALL]})] == ["SG118"]
    assert [code for _, _, code in refusals(bare, [NO_CALL])] == ["SG118"]
