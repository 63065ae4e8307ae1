"""``wish``: what it prints is a policy that can be run as it is, and says why it was chosen."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stream_guard.cli.app import app
from stream_guard.cookbook.ranking import read_recipes
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.testing.policy_tests import run_policy_tests


def wish(*words: str) -> Result:
    return CliRunner().invoke(app, ["wish", *words])


def test_a_wish_prints_a_policy_whose_tests_hold() -> None:
    printed = wish("never force push")
    assert printed.exit_code == 0
    policy = load_policy(printed.output, build_registry())
    assert [rule.id for rule in policy.rules] == ["no-force-push"]
    assert all(outcome.holds for outcome in run_policy_tests(policy))
    assert "# Wish: never force push\n# Why: force, push\n# Recipe force-push: Never force push.\n" in printed.output
    assert "#   stream-guard wish push-to-main: " in printed.output


def test_words_need_no_quotes() -> None:
    assert wish("never", "force", "push").output == wish("never force push").output


def test_without_words_all_wishes_are_listed() -> None:
    listed = wish().output.splitlines()
    assert [line.split()[0] for line in listed] == list(read_recipes())


def test_a_recipe_is_printed_by_its_name() -> None:
    printed = wish("pay-once").output
    assert printed.startswith("# Recipe pay-once: Never pay the same invoice twice.\n")
    assert printed.endswith(read_recipes()["pay-once"].policy)


def test_where_no_recipe_fits_the_kind_says_what_it_does() -> None:
    printed = wish("a formula of linear temporal logic").output
    assert "# Kind ltl_formula: The turns of a session must make a formula" in printed
    assert "#   formula: a formula over the turns" in printed
    assert [rule.rule.kind for rule in load_policy(printed, build_registry()).rules] == ["ltl_formula"]


def test_a_wish_that_nothing_fits_says_so() -> None:
    printed = wish("xyzzy")
    assert printed.exit_code == 4
    assert "nothing in the cookbook fits xyzzy; `stream-guard wish` lists it" in printed.output


@pytest.mark.parametrize(
    "words", ["never force push\nrules: []", "never force push\r- id: x", "force push \x1b[31m\u2028x"]
)
def test_a_wish_cannot_leave_its_comment(words: str) -> None:
    policy = load_policy(wish(words).output, build_registry())
    assert [rule.id for rule in policy.rules] == ["no-force-push"]


def test_a_recipe_whose_kind_is_not_installed_is_not_offered(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("plugins: {allow: [rules]}\n")
    printed = wish("never force push", "--settings", str(settings)).output
    assert "no_effect" not in printed
