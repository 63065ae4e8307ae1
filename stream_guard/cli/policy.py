"""Commands for those who write policies: lint, schema, policy convert, policy test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from stream_guard.commands import FINDINGS, INCONCLUSIVE, USAGE, SettingsFile, load_plugins
from stream_guard.errors import Place, PolicyError, Problem
from stream_guard.policy.codes import Code
from stream_guard.policy.convert import to_yaml
from stream_guard.policy.load import SUFFIXES, load_policy
from stream_guard.policy.schema import policy_schema
from stream_guard.policy.wording import printable, show
from stream_guard.registry import Registry
from stream_guard.reports import Level, annotation


class ProblemFormat(StrEnum):
    """How problems are printed."""

    TABLE = "table"
    JSON = "json"
    GITHUB = "github"


class Described(StrEnum):
    """What there is a schema of."""

    POLICY = "policy"


def lint(
    files: Annotated[list[Path], typer.Argument(help="Policy files, or folders of them.", show_default=False)],
    form: Annotated[ProblemFormat, typer.Option("--format", help="How to print the problems.")] = ProblemFormat.TABLE,
    settings_file: SettingsFile = None,
) -> None:
    """List everything that is wrong with policy files; exit 2 when something is."""
    registry = _registry(settings_file)
    problems: list[Problem] = []
    checked = 0
    for file in _expand(files):
        checked += 1
        problems.extend(_problems(file, registry))
    problems.extend(_empty_folders(files))
    for line in _print(problems, checked, form):
        typer.echo(line)
    errors = sum(not problem.warning for problem in problems)
    typer.echo(f"policies: {checked}, errors: {errors}, warnings: {len(problems) - errors}", err=True)
    if errors:
        raise typer.Exit(USAGE)


def schema(
    what: Annotated[Described, typer.Argument(help="What to describe.")] = Described.POLICY,
    settings_file: SettingsFile = None,
) -> None:
    """Print the JSON Schema of policies with the kinds that are installed, for editors."""
    del what  # there is one so far
    typer.echo(json.dumps(policy_schema(_registry(settings_file)), indent=2, ensure_ascii=False))


def convert(
    file: Annotated[Path, typer.Argument(help="A policy in any dialect.", show_default=False)],
    settings_file: SettingsFile = None,
) -> None:
    """Print a policy of any dialect in the native form."""
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
    from stream_guard.testing.policy_tests import run_policy_tests

    registry = _registry(settings_file)
    outcomes = [outcome for file in _expand(files) for outcome in run_policy_tests(load_policy(file, registry))]
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


def _expand(files: Sequence[Path]) -> Iterator[Path]:
    for file in files:
        if file.is_dir():
            yield from sorted(path for path in file.iterdir() if path.suffix in SUFFIXES and path.is_file())
        else:
            yield file


def _empty_folders(files: Sequence[Path]) -> Iterator[Problem]:
    """A folder without policies is a slip in the path, not a success."""
    for file in files:
        if file.is_dir() and not list(_expand([file])):
            yield Problem(Place(str(file)), f"no file in this folder ends in {', '.join(SUFFIXES)}", Code.UNREADABLE)


def _problems(file: Path, registry: Registry) -> Sequence[Problem]:
    from stream_guard.testing.policy_tests import run_policy_tests

    try:
        policy = load_policy(file, registry, check_tests=True)
    except PolicyError as error:
        return error.problems
    failed = [
        Problem(outcome.place, f"test {show(outcome.claim)}: {printable(outcome.problem)}", Code.TEST, outcome.rule_id)
        for outcome in run_policy_tests(policy)
        if not outcome.holds
    ]
    return sorted([*policy.warnings, *failed], key=lambda problem: problem.place)


def _print(problems: Sequence[Problem], checked: int, form: ProblemFormat) -> Iterator[str]:
    if form is ProblemFormat.JSON:
        yield json.dumps({"checked": checked, "problems": list(map(_as_data, problems))}, indent=2, ensure_ascii=False)
    elif form is ProblemFormat.GITHUB:
        yield from map(_as_annotation, problems)
    else:
        yield from map(str, problems)


def _as_data(problem: Problem) -> dict[str, Any]:
    return {
        "file": problem.place.file,
        "line": problem.place.line,
        "column": problem.place.column,
        "level": "warning" if problem.warning else "error",
        "code": str(problem.code),
        "rule": problem.rule_id,
        "message": problem.message,
    }


def _as_annotation(problem: Problem) -> str:
    rule = f'rule "{problem.rule_id}": ' if problem.rule_id else ""
    level: Level = "warning" if problem.warning else "error"
    return annotation(level, str(problem.code), rule + problem.message, problem.place, column=True)
