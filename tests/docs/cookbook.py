"""docs/cookbook.md, made from the recipes: a heading for each wish, so that the search of the site finds it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from stream_guard.cookbook.ranking import Recipe, read_recipes

INTRODUCTION = """\
# Cookbook

Wishes in plain words, each with a rule to paste, a test that it fires and a test that it stays silent; the suite runs
all of them. The same from the command line, without a network and without a model:

    stream-guard wish "never force push"    # the recipe that fits best, why, and what comes near
    stream-guard wish                       # all wishes
    stream-guard wish force-push            # one by its name

What it prints is a policy, with remarks in comments: `stream-guard wish "never force push" > policy.yaml` writes one
that can be used as it is. Wishes are compared by their words, and by other words of the field for the same thing. Where
no recipe fits, the kind that comes nearest is shown with its own cases; [rule kinds](rules.md) has them all. Names of
tools are examples: each recipe says what to change. Of twenty wishes that were written down before the ranking was
tried, all twenty had what they meant among the first three; of the last twenty, in odder words and written after
everything else, sixteen had.
"""


def cookbook() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION]
    for subject, recipes in groupby(read_recipes().values(), key=lambda recipe: recipe.subject):
        parts.append(f"## {subject.capitalize()}\n")
        parts += [line for recipe in recipes for line in _section(recipe)]
    return "\n".join(parts)


def _section(recipe: Recipe) -> Iterator[str]:
    yield f"### {recipe.wish.removesuffix('.')}\n"
    yield f"*Also*: {'; '.join(recipe.also)}.\n"
    kinds = ", ".join(f"[`{kind}`](rules.md#{kind})" for kind in recipe.kinds)
    yield f"`stream-guard wish {recipe.name}`. Kind: {kinds}.\n"
    yield f"```yaml\n{recipe.policy}```\n"
    yield f"*Change*: {recipe.change}\n"
