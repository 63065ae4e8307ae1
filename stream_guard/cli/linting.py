"""What is said of policy files: problems, and with recordings what became of each rule; in every form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from stream_guard.analysis.breaking import BreakingTraces, in_words
from stream_guard.analysis.policy_review import TraceReview, believed_words, odd_rules, too_many_to_try
from stream_guard.cli.forms import ProblemFormat
from stream_guard.cli.policy import expand_files
from stream_guard.errors import Place, PolicyError, Problem
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.policy.load import SUFFIXES, load_policy
from stream_guard.policy.message_parts import Code, printable, show
from stream_guard.reports import Level, annotation
from stream_guard.running.assembly import Assembly
from stream_guard.running.recordings import RecordedEvents
from stream_guard.testing import events
from stream_guard.testing.policy_tests import run_policy_tests


@dataclass(slots=True)
class Linted:
    """What lint found in some files."""

    checked: int = 0
    problems: list[Problem] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)  # with --against: what is said of each rule


def lint_files(files: Sequence[Path], against: Sequence[str], form: str, assembly: Assembly) -> Linted:
    """Return everything that is to be said of policy files; with recordings, also what these say of the rules."""
    linted = Linted()
    for file in expand_files(files):
        linted.checked += 1
        try:
            policy = load_policy(file, assembly.registry, check_tests=True)
        except PolicyError as error:
            linted.problems.extend(error.problems)
            continue
        breaks = BreakingTraces(policy, events)
        problems = _look(policy, breaks)
        if against:
            problems += _try(policy, breaks, assembly.read_events(against, form), assembly.fit(policy, form), linted)
        linted.problems.extend(sorted(problems, key=_order))
    linted.problems.extend(_empty_folders(files))
    return linted


def _look(policy: Policy, breaks: BreakingTraces) -> list[Problem]:
    """Return everything that is to be said of a policy without recordings."""
    failed = [
        Problem(outcome.place, f"test {show(outcome.claim)}: {printable(outcome.problem)}", Code.TEST, outcome.rule_id)
        for outcome in run_policy_tests(policy)
        if not outcome.holds
    ]
    if said := too_many_to_try(policy):
        typer.echo(said, err=True)
    return [*policy.warnings, *failed, *believed_words(policy), *odd_rules(policy, events, breaks)]


def _order(problem: Problem) -> Place:
    return problem.place


def _try(
    policy: Policy, breaks: BreakingTraces, recording: RecordedEvents, fitted: Policy, linted: Linted
) -> Iterator[Problem]:
    """Try the rules on recordings: yield what is odd, and note the shortest trace that breaks each.

    ``fitted`` is the policy with what the format of the recordings asks for.
    """
    review = TraceReview(fitted)
    review.judge(recording)
    yield from review.problems()
    if recording.dead_letters.total:
        why = f"{recording.dead_letters.total} records could not be read: {recording.dead_letters.summary()[0]}"
        typer.echo(why, err=True)
    for spec in policy.rules:
        linted.rules.append(_said_of(spec, review, breaks.of(spec)))


def _said_of(spec: RuleSpec, review: TraceReview, broken_by: Any) -> dict[str, Any]:
    findings, sessions = review.hits(spec)
    return {
        "file": spec.place.file,
        "line": spec.place.line,
        "column": spec.place.column,
        "rule": spec.id,
        "findings": findings,
        "sessions": sessions,
        "of_sessions": len(review.sessions),
        "broken_by": None if broken_by is None else list(broken_by),
    }


def _empty_folders(files: Sequence[Path]) -> Iterator[Problem]:
    """A folder without policies is a slip in the path, not a success."""
    for file in files:
        if file.is_dir() and not list(expand_files([file])):
            yield Problem(Place(str(file)), f"no file in this folder ends in {', '.join(SUFFIXES)}", Code.UNREADABLE)


def lines_of(linted: Linted, form: ProblemFormat) -> Iterator[str]:
    """Yield what was found, line by line, in the form that was asked for."""
    if form == "json":
        data: dict[str, Any] = {"checked": linted.checked, "problems": list(map(_as_data, linted.problems))}
        if linted.rules:
            data["rules"] = linted.rules
        yield json.dumps(data, indent=2, ensure_ascii=False)
    elif form == "github":
        yield from map(_as_annotation, linted.problems)
    else:
        yield from map(str, linted.problems)
        yield from map(_rule_line, linted.rules)


def _rule_line(said: dict[str, Any]) -> str:
    found = f"{said['findings']:,} findings in {said['sessions']:,} of {said['of_sessions']:,} sessions"
    broken = said["broken_by"]
    shown = "no trace was found that breaks it" if broken is None else f"broken by: {in_words(tuple(broken))}"
    return printable(f'{Place(said["file"], said["line"], said["column"])}: rule "{said["rule"]}": {found}; {shown}')


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
