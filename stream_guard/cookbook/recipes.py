"""Recipes: a wish, other words for it, what to change, and a policy with tests that grants it.

A recipe is a file of two parts with a line ``---`` between them. The first says what is wished for. The second is a
policy as it is written, ready to paste. The folder that it stands in is its subject.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from stream_guard.cookbook.ranking import Candidate
from stream_guard.judge.rule import RuleType
from stream_guard.policy.convert import write_yaml
from stream_guard.policy.document import read_document

_SUFFIX: Final = ".yaml"
_BETWEEN: Final = "\n---\n"
_KIND: Final = re.compile(r"^ +(?:- )?kind: (\w+)$", re.MULTILINE)
_REMARK: Final = re.compile(r"^ +(?:- )?(?:reason|claim): (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One wish and the policy that grants it."""

    name: str
    subject: str
    wish: str
    also: tuple[str, ...]  # the same wish, or one like it, in other words
    change: str  # what to change for one's own tools
    policy: str

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its rules, each once."""
        return tuple(dict.fromkeys(_KIND.findall(self.policy)))

    @property
    def remarks(self) -> list[str]:
        """What its rules say of themselves: reasons, and the claims of their tests."""
        return _REMARK.findall(self.policy)


def read_recipes() -> Mapping[str, Recipe]:
    """Return the recipes by name, in order of their subjects and names."""
    folders = (folder for folder in (files(__package__) / "recipes").iterdir() if folder.is_dir())
    found = ((folder.name, file) for folder in folders for file in folder.iterdir() if file.name.endswith(_SUFFIX))
    ordered = sorted(found, key=lambda each: (each[0], each[1].name))
    recipes = (_recipe(subject, file) for subject, file in ordered)
    return {recipe.name: recipe for recipe in recipes}


def _recipe(subject: str, file: Traversable) -> Recipe:
    head, policy = file.read_text(encoding="utf-8").split(_BETWEEN, 1)
    name = file.name.removesuffix(_SUFFIX)
    said = read_document(head, name).data
    return Recipe(name, subject, said["wish"], tuple(said["also"]), said["change"], policy)


# Kinds as entries of the cookbook, for wishes that no recipe grants: what a kind says of itself, and its cases.


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
