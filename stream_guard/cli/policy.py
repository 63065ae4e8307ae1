"""Commands for those who write policies: schema, policy convert, policy test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_guard.commands import FINDINGS, INCONCLUSIVE, USAGE, SettingsFile, load_plugins
from stream_guard.errors import PolicyError

if TYPE_CHECKING:
    from stream_guard.registry import Registry


def schema(
    what: Annotated[Literal["policy"], typer.Argument(help="What to describe.")] = "policy",
    settings_file: SettingsFile = None,
) -> None:
    """Print the JSON Schema of policies with the kinds that are installed, for editors."""
    from stream_guard.policy.forms import policy_schema

    del what  # there is one so far
    typer.echo(json.dumps(policy_schema(_registry(settings_file)), indent=2, ensure_ascii=False))


def convert(
    file: Annotated[Path, typer.Argument(help="A policy in any dialect.", show_default=False)],
    settings_file: SettingsFile = None,
) -> None:
    """Print a policy of any dialect in the native form."""
    from stream_guard.policy.convert import to_yaml
    from stream_guard.policy.load import load_policy

    try:
        policy = load_policy(file, _registry(settings_file))
    except PolicyError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(USAGE) from None
    typer.echo(to_yaml(policy), nl=False)
    renamed = [rule for rule in policy.rules if rule.slot != rule.id]
    for rule in renamed:
        typer.echo(f'{rule.place}: id "{rule.id}" is taken; this rule is now "{rule.slot}"', err=True)


def run_tests(
    files: Annotated[list[Path], typer.Argument(help="Policy files, or folders of them.", show_default=False)],
    settings_file: SettingsFile = None,
) -> None:
    """Run the tests that stand beside the rules; exit 1 when one fails, 4 when there is none."""
    from stream_guard.policy.load import load_policy
    from stream_guard.testing.policy_tests import run_policy_tests

    registry = _registry(settings_file)
    outcomes = [outcome for file in expand_files(files) for outcome in run_policy_tests(load_policy(file, registry))]
    failed = [outcome for outcome in outcomes if not outcome.holds]
    for outcome in outcomes:
        said = f": {outcome.problem}" if outcome.problem else ""
        typer.echo(f"{'pass' if outcome.holds else 'FAIL'} {outcome.place} {outcome.rule_id}: {outcome.claim}{said}")
    typer.echo(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed", err=True)
    if failed:
        raise typer.Exit(FINDINGS)
    if not outcomes:
        typer.echo("no rule has tests; nothing is proven", err=True)
        raise typer.Exit(INCONCLUSIVE)


def _registry(settings_file: Path | None) -> Registry:
    return load_plugins(settings_file)[1]


def expand_files(files: Sequence[Path]) -> Iterator[Path]:
    """Yield the files, and of a folder the policies in it."""
    from stream_guard.policy.load import SUFFIXES

    for file in files:
        if file.is_dir():
            yield from sorted(path for path in file.iterdir() if path.suffix in SUFFIXES and path.is_file())
        else:
            yield file
