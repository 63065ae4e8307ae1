"""Every recipe grants its wish: a policy without warnings, with tests that fire and tests that stay silent."""

from __future__ import annotations

import pytest

from stream_guard.cookbook.ranking import read_recipes
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.testing.policy_tests import run_policy_tests

REGISTRY = build_registry()
RECIPES = read_recipes()


def policy_of(name: str) -> Policy:
    return load_policy(RECIPES[name].policy, REGISTRY, file=f"{name}.yaml")


def test_there_are_forty_wishes_or_more_and_each_is_said_once() -> None:
    assert len(RECIPES) >= 40
    said = [phrase.lower() for recipe in RECIPES.values() for phrase in (recipe.wish, *recipe.also)]
    assert sorted(said) == sorted(set(said))


@pytest.mark.parametrize("name", RECIPES)
def test_the_tests_of_a_recipe_hold(name: str) -> None:
    policy = policy_of(name)
    assert policy.warnings == ()
    assert [(outcome.claim, outcome.problem) for outcome in run_policy_tests(policy) if not outcome.holds] == []


@pytest.mark.parametrize("name", RECIPES)
def test_every_rule_of_a_recipe_has_a_reason_and_tests_that_hit_and_that_do_not(name: str) -> None:
    for rule in policy_of(name).rules:
        assert rule.reason.endswith(".")
        assert {bool(test.get("hits")) for test in rule.tests} == {True, False}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_what_it_is_and_what_to_change(name: str) -> None:
    recipe = RECIPES[name]
    assert recipe.wish.endswith(".")
    assert len(recipe.also) >= 2
    assert recipe.change.endswith(".")
    assert set(recipe.kinds) == {rule.rule.kind for rule in policy_of(name).rules}
