"""``replay --compare-policy``: what a change of policy would have changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import typer

from stream_guard.analysis.backtest import Backtest, RuleScore, compare_policies
from stream_guard.analysis.labels import Labels, read_labels
from stream_guard.cli.forms import FindingFormat
from stream_guard.commands import CLEAN, INCONCLUSIVE
from stream_guard.decoding.selection import TimeSpan
from stream_guard.errors import SettingsError
from stream_guard.judge.model import Alert
from stream_guard.judge.spec import Policy
from stream_guard.running.recordings import RecordedEvents
from stream_guard.settings import SessionLimits

_HALF: Final = 8
_WIDTH: Final = 2 * _HALF + 1


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
    if form == "table":
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
    for line in _side_by_side(result):
        typer.echo(line)


def _example(alerts: Sequence[Alert], rule: str) -> str:
    one = next(alert for alert in alerts if alert.rule_id == rule)
    return f"{one.session_id!r} at {one.event_id!r}"


def _side_by_side(result: Backtest) -> Iterator[str]:
    """Yield a table of how right each rule is under the old policy and under the new one."""
    old = {score.rule_id: score for score in result.old_scores}
    new = {score.rule_id: score for score in result.new_scores}
    names = list(dict.fromkeys([*new, *old]))
    if not names:
        return
    width = max(len("rule"), *map(len, names))
    columns = ("precision", "recall", "benign alert rate", "sessions")
    yield "  ".join(["rule".ljust(width), *(name.center(_WIDTH) for name in columns)]).rstrip()
    yield "  ".join([" " * width, *["old".rjust(_HALF) + "new".rjust(_HALF) for _ in columns]])
    for name in names:
        sides = [_cells(old.get(name)), _cells(new.get(name))]
        pairs = [before.rjust(_HALF) + after.rjust(_HALF) for before, after in zip(*sides, strict=True)]
        yield "  ".join([name.ljust(width), *pairs])


def _cells(score: RuleScore | None) -> list[str]:
    """Return the figures of a rule; nothing for a policy that does not have it, a dash where nothing was counted."""
    if score is None:
        return [""] * 4
    rates = (score.precision, score.recall, score.benign_alert_rate)
    return [*("-" if rate is None else f"{rate:.2f}" for rate in rates), f"{score.sessions:,}"]
