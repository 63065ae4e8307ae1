"""``wish``: from a wish in plain words to a rule with its tests, by the words of the cookbook and of the kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from stream_guard.commands import INCONCLUSIVE, SettingsFile, load_plugins, print_text

if TYPE_CHECKING:
    from stream_guard.cookbook.ranking import Ranked, Recipe
    from stream_guard.judge.rule import RuleType

_FITS: Final = 0.45  # a lower score says that words are shared, not that the wish is
_NEAR: Final = 0.3  # the share of the best score from which on others are shown


def wish(
    words: Annotated[
        list[str] | None, typer.Argument(help="A wish in plain words, or the name of a recipe.", show_default=False)
    ] = None,
    near: Annotated[int, typer.Option("--near", min=0, help="How many others to name that come near.")] = 4,
    settings_file: SettingsFile = None,
) -> None:
    """Find the rule for a wish in plain words, with its tests, ready to paste; without words, list the wishes."""
    from stream_guard.cookbook.ranking import Shelf, kind_candidate, read_recipes, recipe_candidate

    recipes = read_recipes()
    asked = " ".join(" ".join(words or ()).split())
    if not asked:
        _list(recipes)
        return
    kinds = load_plugins(settings_file)[1].kinds
    if asked in recipes or asked in kinds:
        print_text(_entry(asked, recipes, kinds), newline=False)
        return
    candidates = [recipe_candidate(recipe) for recipe in recipes.values() if not set(recipe.kinds) - set(kinds)]
    ranked = Shelf([*candidates, *map(kind_candidate, kinds.values())]).find(asked)
    if not ranked or ranked[0].score < _FITS:
        _say_nothing_fits(asked, ranked[:near], recipes, kinds)
        raise typer.Exit(INCONCLUSIVE)
    best, *rest = ranked
    lines = [f"# Wish: {_line(asked)}", f"# Why: {_why(best)}"]
    print_text("\n".join(lines))
    print_text(_entry(best.name, recipes, kinds), newline=False)
    others = [other for other in rest[:near] if other.score >= _NEAR * best.score]
    if others:
        print_text("\n".join(["# Near:", *_named(others, recipes, kinds)]))


def _list(recipes: Mapping[str, Recipe]) -> None:
    width = max(map(len, recipes))
    print_text("\n".join(f"{recipe.name:<{width}}  {recipe.wish}" for recipe in recipes.values()))


def _entry(name: str, recipes: Mapping[str, Recipe], kinds: Mapping[str, RuleType]) -> str:
    """Return an entry as a policy file; what is said about it stands in comments."""
    from stream_guard.cookbook.ranking import kind_policy, kind_summary

    if name in recipes:
        recipe = recipes[name]
        heads = [f"# Recipe {name}: {recipe.wish}", f"# Change: {recipe.change}"]
        return "\n".join([*heads, recipe.policy])
    heads = [f"# Kind {name}: {kind_summary(kinds[name])}", "# Change the parameters:", *_parameters(kinds[name])]
    return "\n".join([*heads, kind_policy(kinds[name])])


def _parameters(rule: RuleType) -> Iterator[str]:
    for name, field in rule.params_type.model_fields.items():
        yield f"#   {field.alias or name}: {(field.description or '').replace('``', '`')}"


def _why(best: Ranked) -> str:
    """Say which words were found, and which are taken for others."""
    return ", ".join(word if word.startswith(shared) else f"{word} ({shared})" for word, shared in best.matched)


def _title(name: str, recipes: Mapping[str, Recipe], kinds: Mapping[str, RuleType]) -> str:
    from stream_guard.cookbook.ranking import kind_summary

    return recipes[name].wish if name in recipes else kind_summary(kinds[name])


def _named(others: Sequence[Ranked], recipes: Mapping[str, Recipe], kinds: Mapping[str, RuleType]) -> Iterator[str]:
    for other in others:
        yield f"#   stream-guard wish {other.name}: {_title(other.name, recipes, kinds)}"


def _say_nothing_fits(
    asked: str, others: Sequence[Ranked], recipes: Mapping[str, Recipe], kinds: Mapping[str, RuleType]
) -> None:
    typer.echo(f"nothing in the cookbook fits {_line(asked)}; `stream-guard wish` lists it", err=True)
    for line in _named(others, recipes, kinds):
        typer.echo(line.removeprefix("#   "), err=True)


def _line(text: str) -> str:
    from stream_guard.policy.message_parts import printable

    return printable(text, 200)
