"""Batch: recorded sessions through the same rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding
from stream_guard.judge.ports import NO_ANSWERS, JudgeAnswers
from stream_guard.judge.spec import Policy

# The empty judge of the policy that was used last: for a short session, making one takes longer than judging it.
_idle: Final[list[Judge]] = []


def evaluate(
    events: Iterable[Event], policy: Policy, *, counts: Counts | None = None, answers: JudgeAnswers = NO_ANSWERS
) -> list[Finding]:
    """Return everything the policy finds in the events. Sessions may be mixed; the end of the input ends them."""
    plain = counts is None and answers is NO_ANSWERS
    judge = _take_idle(policy) if plain else Judge(policy, counts=counts, answers=answers)
    found: list[Finding] = []
    for event in events:
        found += judge.feed(event).findings
    found += judge.end()
    # A rule that has raised is run with more care from then on, so its judge is not used again.
    if plain and not judge.counts.rule_errors:
        _idle[:] = [judge]
    return found


def _take_idle(policy: Policy) -> Judge:
    """Return a judge without sessions that nobody else has: the one from last time, or a new one."""
    try:
        judge = _idle.pop()  # at once, not after a look: another thread may want it too
    except IndexError:
        return Judge(policy)
    return judge if judge.policy is policy else Judge(policy)
