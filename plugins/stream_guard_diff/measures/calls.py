"""Measures of calls: which tools, in what order, repeated or failed, and how many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import log

from stream_guard import RecordedTurn
from stream_guard_diff.measures.items import ItemTable, SessionItem
from stream_guard_diff.trails import SessionTrail, UserStep


def measure_calls(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axes tools, new_tools, order, repeats, errors, turns and stop_reasons."""
    called = [{call.tool for turn in trail.recording.turns for call in turn.calls} for trail in trails]
    table.add_each("tools", called, "calls {}")
    table.add_unusual("new_tools", called, "calls a tool that next to no session calls")
    table.add_new("new_tools", called, "calls {}, which the baseline never calls,")
    table.add_each("order", [_followed(trail) for trail in trails], "calls {}")
    _add_repeats(trails, table)
    failed = [trail.recording.failed_results for trail in trails]
    table.add(SessionItem("errors", "has a call that failed", 1), [count > 0 for count in failed])
    table.add(SessionItem("errors", "has more than one call that failed", 1), [count > 1 for count in failed])
    _add_amounts(trails, table)


def _followed(trail: SessionTrail) -> set[str]:
    """Return which call came straight after what: a message, an answer or another call."""
    found: set[str] = set()
    before = "nothing"
    for step in trail.steps:
        if isinstance(step, UserStep):
            before = "a message of the user"
        elif isinstance(step, RecordedTurn):
            for call in step.calls:
                found.add(f"{call.tool} right after {before}")
                before = call.tool
            if step.text and not step.calls:
                before = "an answer"
    return found


def _add_repeats(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    tokens = [[call.token for turn in trail.recording.turns for call in turn.calls] for trail in trails]
    in_a_row = [any(first == second for first, second in pairwise(row)) for row in tokens]
    most = [max(Counter(row).values(), default=0) for row in tokens]
    for says, column in (
        ("makes the same call again right after it succeeded", [_repeats_success(trail) for trail in trails]),
        ("makes the same call twice in a row", in_a_row),
        ("makes a call again that it made before", [count > 1 for count in most]),
        ("makes one call three times or more", [count > 2 for count in most]),
        ("says the same sentence twice in one answer", [_repeats_itself(trail) for trail in trails]),
    ):
        table.add(SessionItem("repeats", says, 1), column)


def _repeats_success(trail: SessionTrail) -> bool:
    last = ""
    for step in trail.steps:
        if isinstance(step, RecordedTurn):
            for call in step.calls:
                if call.token == last:
                    return True
                last = call.token
        elif isinstance(step, UserStep) or step.failed:
            last = ""
    return False


def _repeats_itself(trail: SessionTrail) -> bool:
    for turn in trail.recording.turns:
        sentences = [part.strip() for part in turn.text[:20_000].replace("\n", ". ").split(". ")]
        long = [part.rstrip(".") for part in sentences if len(part) > 40]
        if len(long) > len(set(long)):
            return True
    return False


def _add_amounts(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    recordings = [trail.recording for trail in trails]
    for says, counts in (
        ("turns", [len(recording.turns) for recording in recordings]),
        ("tool calls", [sum(len(turn.calls) for turn in recording.turns) for recording in recordings]),
        ("messages of the user", [sum(isinstance(step, UserStep) for step in trail.steps) for trail in trails]),
    ):
        table.add(SessionItem("turns", says, 0, "ratio"), [log(1 + count) for count in counts])
    unfinished = [
        bool(recording.turns) and not recording.turns[-1].text.strip() and bool(recording.turns[-1].calls)
        for recording in recordings
    ]
    table.add(SessionItem("turns", "ends with a call and no answer", 1), unfinished)
    reasons = [{turn.stop_reason for turn in recording.turns if turn.stop_reason} for recording in recordings]
    table.add_each("stop_reasons", reasons, "has a turn that stops with {}")
