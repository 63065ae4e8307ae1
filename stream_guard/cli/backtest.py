"""``replay --compare-policy``: what a change of policy would have changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer

from stream_guard.analysis.backtest import Backtest, RuleScore, compare_policies
from stream_guard.analysis.labels import Labels, read_labels
from stream_guard.cli.findings import FindingFormat
from stream_guard.commands import CLEAN, INCONCLUSIVE
from stream_guard.decoding.selection import TimeSpan
from stream_guard.errors import SettingsError
from stream_guard.model import Alert
from stream_guard.policy.spec import Policy
from stream_guard.running.recordings import RecordedEvents
from stream_guard.settings import SessionLimits


def backtest(
    recording: RecordedEvents,
    span: TimeSpan,
    policies: tuple[Policy, Policy],
    labels: Path | None,
    form: FindingFormat,
    limits: SessionLimits,
) -> int:
    """Judge a recording by the new and the old policy, print what differs, and return the exit code."""
    known = None if labels is None else open_labels(labels)
    new, old = policies
    events = (event for event in recording if span.holds(event.time))
    result = compare_policies(events, new, old, labels=known, limits=limits)
    if form is FindingFormat.TABLE:
        _show(result)
    else:
        typer.echo(msgspec.json.encode(result).decode())
    letters = recording.dead_letters
    if letters.total:
        typer.echo(f"inconclusive: {letters.total} records could not be read: {letters.summary()[0]}", err=True)
        return INCONCLUSIVE
    return CLEAN


def open_labels(labels: Path) -> Labels:
    """Return the labels of a file, or raise SettingsError."""
    try:
        return read_labels(labels.read_bytes(), str(labels))
    except OSError as error:
        raise SettingsError(f"{labels}: {error.strerror}; --labels takes a JSON file of sessions") from error


def _show(result: Backtest) -> None:
    typer.echo(f"{len(result.added)} alerts added, {len(result.removed)} removed, {result.kept} the same")
    for word, alerts in (("added", result.added), ("removed", result.removed)):
        for rule, number in sorted(Counter(alert.rule_id for alert in alerts).items()):
            typer.echo(f"  {word:8}{number:>6}  {rule}  for example {_example(alerts, rule)}")
    for word, scores in (("old", result.old_scores), ("new", result.new_scores)):
        for score in scores:
            typer.echo(f"  {word:4}{score.rule_id}: {_score(score)}")


def _example(alerts: Sequence[Alert], rule: str) -> str:
    one = next(alert for alert in alerts if alert.rule_id == rule)
    return f"{one.session_id!r} at {one.event_id!r}"


def _score(score: RuleScore) -> str:
    rates = {"precision": score.precision, "recall": score.recall, "benign alert rate": score.benign_alert_rate}
    shown = ", ".join(f"{name} {'-' if rate is None else f'{rate:.2f}'}" for name, rate in rates.items())
    return f"{shown}, fires in {score.sessions} labelled sessions"
