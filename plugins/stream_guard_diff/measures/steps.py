"""Measures of steps that were left out: what nearly always comes before a call, and did not."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from stream_guard import RecordedTurn
from stream_guard_diff.measures.items import ItemTable, SessionItem
from stream_guard_diff.trails import SessionTrail, UserStep

WAITS: Final = 0.4  # a tool that is called after the user's yes as often as this waits for it
NEEDED: Final = 0.9  # a tool that is called before another as often as this is a step towards it
ENOUGH: Final = 8  # calls, or sessions, from which on that can be told
_MOST_TOOLS: Final = 60
_LONGEST: Final = 4_000
_BEGINNING: Final = 80  # of a message: a yes comes first
_YES: Final = re.compile(
    r"\b(yes|yep|yeah|ok|okay|sure|correct|fine|perfect|absolutely|proceed|go ahead|go with|confirm|confirmed|please do"
    r"|i agree|that['\u2019]s right|sounds (good|fine|great)|that works|do it)\b"
)
_ASKS: Final = re.compile(
    r"\b(confirm|confirmation|proceed|go ahead|yes|shall i|should i|would you like|do you want|correct|agree)\b"
)


def measure_steps(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axis skipped_steps; what is usual is learned from the sessions of both sides."""
    rows = [list(_openings(trail)) for trail in trails]
    for says, heard, often in (
        ("makes a call without hearing the user first, that nearly always waits", _spoke, NEEDED),
        ("makes a call without the user's yes, that usually waits for it", _agreed, WAITS),
        ("makes a call without asking and a yes right before it, that usually waits for both", _was_asked, WAITS),
    ):
        seen: Counter[str] = Counter(tool for row in rows for tool, _ in row)
        waited: Counter[str] = Counter(tool for row in rows for tool, opening in row if heard(tool, opening))
        waiting = {tool for tool, count in seen.items() if count >= ENOUGH and waited[tool] >= often * count}
        hurried = [any(tool in waiting and not heard(tool, opening) for tool, opening in row) for row in rows]
        table.add(SessionItem("skipped_steps", says, 1), hurried)
    _add_missing_calls(trails, table)


class Opening(NamedTuple):
    """What stands before the calls that follow a message of the user."""

    asked: str  # the answer before the message
    said: str
    first: str  # the tool that is called first after it


def _openings(trail: SessionTrail) -> Iterator[tuple[str, Opening]]:
    """Yield the tools that are called after each message of the user, with what stands before them."""
    asked = answer = said = ""
    tools: dict[str, None] = {}
    for step in (*trail.steps, UserStep("")):
        if isinstance(step, UserStep):
            for tool in tools:
                yield tool, Opening(asked, said, next(iter(tools)))
            asked, answer, said = answer, "", step.text[:_LONGEST].lower()
            tools = {}
        elif isinstance(step, RecordedTurn):
            tools |= dict.fromkeys(call.tool for call in step.calls)
            if step.text and not step.calls:
                answer = step.text[-_LONGEST:].lower()


def _spoke(tool: str, opening: Opening) -> bool:
    return bool(opening.said) and tool == opening.first


def _agreed(_: str, opening: Opening) -> bool:
    return bool(_YES.search(opening.said[:_BEGINNING]))


def _was_asked(tool: str, opening: Opening) -> bool:
    return tool == opening.first and _agreed(tool, opening) and bool(_ASKS.search(opening.asked))


def _add_missing_calls(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    orders: list[dict[str, set[str]]] = []
    for trail in trails:
        earlier: dict[str, set[str]] = {}
        seen: set[str] = set()
        for turn in trail.recording.turns:
            for call in turn.calls:
                earlier.setdefault(call.tool, set(seen))
                seen.add(call.tool)
        orders.append(earlier)
    sessions: Counter[str] = Counter(tool for earlier in orders for tool in earlier)
    before: defaultdict[str, Counter[str]] = defaultdict(Counter)
    frequent = {tool for tool, count in sessions.most_common(_MOST_TOOLS) if count >= ENOUGH}
    for earlier in orders:
        for tool, tools in earlier.items():
            if tool in frequent:
                before[tool].update(tools & frequent)
    needed = {
        tool: {first for first, count in counts.items() if count >= NEEDED * sessions[tool]}
        for tool, counts in before.items()
    }
    lacking = [any(needed.get(tool, set()) - tools for tool, tools in earlier.items()) for earlier in orders]
    table.add(SessionItem("skipped_steps", "leaves out a call that usually comes before another", 1), lacking)
