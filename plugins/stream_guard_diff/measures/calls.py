"""Measures of calls: which tools, in what order, repeated or failed, and how many."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import pairwise
from math import log
from typing import Final

from stream_guard import Json, RecordedTurn
from stream_guard_diff.measures.items import ItemTable, SessionItem, count_support, surprise
from stream_guard_diff.trails import SessionTrail, UserStep

STRANGE: Final = 0.05  # share of the sessions up to which a tool may be there by exception


def measure_calls(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axes tools, new_tools, order, repeats, errors, turns and stop_reasons."""
    called = [{call.tool for turn in trail.recording.turns for call in turn.calls} for trail in trails]
    table.add_each("tools", called, "calls {}")
    table.add_unusual("new_tools", called, "calls a tool that next to no session calls")
    table.add_new("new_tools", called, "calls {}, which the baseline never calls,")
    table.add(
        SessionItem("new_tools", "calls a tool that next to no session calls, in the place of a usual one", 1),
        _stand_ins(trails, called, table),
    )
    table.add_each("order", [_followed(trail) for trail in trails], "calls {}")
    _add_repeats(trails, table)
    failed = [trail.recording.failed_results for trail in trails]
    table.add(SessionItem("errors", "has a call that failed", 1), [count > 0 for count in failed])
    table.add(SessionItem("errors", "has more than one call that failed", 1), [count > 1 for count in failed])
    _add_amounts(trails, table)


def _stand_ins(trails: Sequence[SessionTrail], called: Sequence[set[str]], table: ItemTable) -> list[bool]:
    """Whether a session calls a rare tool with the arguments of a tool that others with its task call, and it does not.

    What a task, or a page that an agent read, asks for by exception takes no other tool's place.
    """
    names: dict[str, set[str]] = {}
    for trail in trails:
        for turn in trail.recording.turns:
            for call in turn.calls:
                names.setdefault(call.tool, set()).update(call.args if isinstance(call.args, dict) else ())
    support = count_support(called)
    odd = {tool for tool, count in support.items() if count <= STRANGE * len(called)}
    found = []
    for tools, mates in zip(called, table.mates(), strict=True):
        theirs = Counter(tool for mate in mates for tool in called[mate])
        missing = [tool for tool, count in theirs.items() if tool not in tools and 2 * count >= len(mates)]
        strange = [tool for tool in tools & odd if not theirs[tool]]
        found.append(any(_fits(names[one], names[other]) for one in strange for other in missing))
    return found


def _fits(given: set[str], usual: set[str]) -> bool:
    """Whether a call with the given arguments could stand where one with the usual arguments stood."""
    return given <= usual if given else not usual


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
    again = [_repeated_in_vain(trail) for trail in trails]
    table.add(
        SessionItem("repeats", "makes a call again, and gets the same answer again", 1),
        map(bool, again),
        evidence=_how_odd(trails, again),
    )
    for says, column in (
        ("makes the same call twice in a row", in_a_row),
        ("makes a call again that it made before", [count > 1 for count in most]),
        ("makes one call three times or more", [count > 2 for count in most]),
        ("says the same sentence twice in one answer", [_repeats_itself(trail) for trail in trails]),
    ):
        table.add(SessionItem("repeats", says, 1), column)


def _how_odd(trails: Sequence[SessionTrail], again: Sequence[set[str]]) -> list[float]:
    """Return how few others repeat the tools that a session repeats: some answers are worth asking for again."""
    called = count_support({call.tool for turn in trail.recording.turns for call in turn.calls} for trail in trails)
    repeated = count_support(again)
    return [max((surprise(repeated[tool] - 1, called[tool] - 1) for tool in row), default=0.0) for row in again]


def _repeated_in_vain(trail: SessionTrail) -> set[str]:
    """Return the tools of which a call of the turn before, or of the same one, is made again and has the same answer.

    Asking again later, or when the answer may have changed, is no fault.
    """
    found: set[str] = set()
    before: dict[str, Json] = {}
    now: dict[str, Json] = {}
    waiting: deque[tuple[str, str]] = deque()
    for step in trail.steps:
        if isinstance(step, UserStep):
            before, now = {}, {}
        elif isinstance(step, RecordedTurn):
            before, now = now, {}
            waiting = deque((call.tool, call.token) for call in step.calls)
        elif waiting:
            tool, token = waiting.popleft()
            if any(token in answers and answers[token] == step.output for answers in (before, now)):
                found.add(tool)
            now[token] = step.output
    return found


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
