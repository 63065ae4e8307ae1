"""Kinds as entries of the cookbook, for wishes that no recipe grants: what a kind says of itself, and its cases."""

from __future__ import annotations

import inspect

from stream_guard.cookbook.ranking import Candidate
from stream_guard.cookbook.recipes import Recipe
from stream_guard.judge.rule import RuleType
from stream_guard.policy.convert import write_yaml

_SHARE = 0.6  # a recipe is more use to whoever wishes than a kind that would do as well


def kind_summary(rule: RuleType) -> str:
    """Return the first sentence of what a kind says of itself."""
    return _described(rule).partition("\n")[0]


def kind_policy(rule: RuleType) -> str:
    """Return a policy with one rule of the kind: the parameters of its first case, and the cases that fit them."""
    first = rule.examples[0]
    tests = [
        {"claim": case.claim, "trace": list(case.trace), **({"hits": list(case.hits)} if case.hits else {})}
        for case in rule.examples
        if case.params == first.params
    ]
    name = rule.kind.replace("_", "-")
    return write_yaml({"rules": [{"id": name, "kind": rule.kind, "params": dict(first.params), "tests": tests}]})


def kind_candidate(rule: RuleType) -> Candidate:
    """Return a kind as something that a wish may mean."""
    claims = ". ".join(case.claim for case in rule.examples)
    fields = ". ".join(field.description or "" for field in rule.params_type.model_fields.values())
    phrasings = (kind_summary(rule), rule.kind.replace("_", " "))
    return Candidate(rule.kind, phrasings, f"{_described(rule)} {claims} {fields}", _SHARE)


def recipe_candidate(recipe: Recipe) -> Candidate:
    """Return a recipe as something that a wish may mean."""
    remarks = ". ".join([*recipe.remarks, recipe.change, *recipe.kinds])
    return Candidate(recipe.name, (recipe.wish, *recipe.also, recipe.name.replace("-", " ")), remarks)


def _described(rule: RuleType) -> str:
    return (inspect.getdoc(rule) or "").replace("``", "`")
