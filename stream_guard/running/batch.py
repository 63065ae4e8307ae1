"""Batch: recorded sessions through the same rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Event, Finding
from stream_guard.judge.ports import NO_ANSWERS, JudgeAnswers
from stream_guard.judge.spec import Policy
from stream_guard.judge.table import SessionTable
from stream_guard.pipeline import open_table

# The empty table of the policy that was used last: for a short session, making one takes longer than judging it.
_idle: Final[list[SessionTable]] = []


def evaluate(
    events: Iterable[Event], policy: Policy, *, counts: Counts | None = None, answers: JudgeAnswers = NO_ANSWERS
) -> list[Finding]:
    """Return everything the policy finds in the events. Sessions may be mixed; the end of the input ends them."""
    plain = counts is None and answers is NO_ANSWERS
    table = _take_idle(policy) if plain else open_table(policy, counts, answers=answers)
    found: list[Finding] = []
    for event in events:
        table.feed(event, found)
    table.end_all(found)
    # A rule that has raised is run with more care from then on, so its table is not used again.
    if plain and not table.counts.rule_errors:
        _idle[:] = [table]
    return found


def _take_idle(policy: Policy) -> SessionTable:
    """Return a table without sessions that nobody else has: the one from last time, or a new one."""
    try:
        table = _idle.pop()  # at once, not after a look: another thread may want it too
    except IndexError:
        return open_table(policy)
    return table if table.engine.policy is policy else open_table(policy)
