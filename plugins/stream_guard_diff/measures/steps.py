"""Measures of steps that were left out: what nearly always comes before a call, and did not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from stream_guard import RecordedTurn
from stream_guard_diff.measures.items import ItemTable, SessionItem
from stream_guard_diff.trails import SessionTrail, UserStep

WAITS: Final = (0.9, 0.7)  # a tool that is called after the user's answer as often as this waits for it
NEEDED: Final = 0.9  # a tool that is called before another as often as this is a step towards it
ENOUGH: Final = 8  # calls, or sessions, from which on that can be told
_MOST_TOOLS: Final = 60


def measure_steps(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axis skipped_steps; what is usual is learned from the sessions of both sides."""
    contexts = [_contexts(trail) for trail in trails]
    for before, says in (
        (("user",), "makes a call without waiting for the user, that {} waits"),
        (("answer", "user"), "makes a call without asking the user first, that {} asks"),
    ):
        seen: Counter[str] = Counter()
        waited: Counter[str] = Counter()
        for row in contexts:
            seen.update(tool for tool, _ in row)
            waited.update(tool for tool, context in row if context[-len(before) :] == before)
        for share, often in zip(WAITS, ("nearly always", "usually"), strict=True):
            waiting = {tool for tool, count in seen.items() if count >= ENOUGH and waited[tool] >= share * count}
            hurried = [
                any(tool in waiting and context[-len(before) :] != before for tool, context in row) for row in contexts
            ]
            table.add(SessionItem("skipped_steps", says.format(often), 1), hurried)
    _add_missing_calls(trails, table)


def _contexts(trail: SessionTrail) -> list[tuple[str, tuple[str, ...]]]:
    """Return each call with the two things before its turn: a call, an answer, or what the user said."""
    found: list[tuple[str, tuple[str, ...]]] = []
    before: tuple[str, ...] = ()
    for step in trail.steps:
        if isinstance(step, UserStep):
            before = (*before[-1:], "user")
        elif isinstance(step, RecordedTurn):
            found += [(call.tool, before) for call in step.calls]
            if step.calls or step.text:
                before = (*before[-1:], "call" if step.calls else "answer")
    return found


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
