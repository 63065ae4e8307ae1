"""Every policy pack that comes with the project: a policy that loads, proven by the tests beside its rules."""

from __future__ import annotations

import pytest

from stream_guard.judge.model import Severity
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.policy.packs import read_pack
from stream_guard.registry import build_registry
from stream_guard.testing.policy_tests import run_policy_tests

REGISTRY = build_registry()
PACKS = list(REGISTRY.policy_packs)
# A limit that no short trace reaches has no test that hits.
LIMITS = {"too-many-turns", "too-many-calls", "agents-without-end"}


def policy_of(name: str) -> Policy:
    return load_policy(REGISTRY.policy_packs[name].file.read_text(encoding="utf-8"), REGISTRY, file=name)


def test_the_packs_are_those_that_are_promised() -> None:
    assert PACKS == ["coding_agent", "customer_support", "money_movement", "personal_assistant", "runaway", "workplace"]


@pytest.mark.parametrize("name", PACKS)
def test_a_pack_is_a_policy_without_warnings_under_its_own_name(name: str) -> None:
    policy = policy_of(name)
    assert policy.warnings == ()
    assert policy.name == name
    assert set(read_pack(REGISTRY.policy_packs[name])) <= {"name", "version", "tool_classes", "rules"}


@pytest.mark.parametrize("name", PACKS)
def test_the_tests_beside_the_rules_hold(name: str) -> None:
    outcomes = list(run_policy_tests(policy_of(name)))
    assert [(outcome.rule_id, outcome.problem) for outcome in outcomes if not outcome.holds] == []


@pytest.mark.parametrize("name", PACKS)
def test_every_rule_has_a_reason_and_tests_that_hit_and_that_do_not(name: str) -> None:
    for rule in policy_of(name).rules:
        assert rule.reason.endswith("."), rule.id
        hits = [bool(test.get("hits")) for test in rule.tests]
        assert False in hits, rule.id
        assert True in hits or rule.id in LIMITS, rule.id


@pytest.mark.parametrize("name", PACKS)
def test_a_rule_about_a_habit_sends_nothing(name: str) -> None:
    assert [rule.id for rule in policy_of(name).rules if rule.severity is Severity.INFO and not rule.shadow] == []


def test_all_packs_can_be_in_force_together() -> None:
    policy = load_policy(f"packs: [{', '.join(PACKS)}]", REGISTRY)
    assert len(policy.rules) == sum(len(policy_of(name).rules) for name in PACKS)


def test_no_class_of_tools_means_two_things() -> None:
    declared = [name for pack in PACKS for name in policy_of(pack).tool_classes]
    assert sorted(declared) == sorted(set(declared))
