"""What has to be counted for predicates, each thing once, in the order in which it is stored."""

from __future__ import annotations

from typing import Final, NamedTuple

from stream_guard_rules.shapes.predicates import Count, When, WindowCount, given

GROUPS: Final = ("all_of", "any_of", "not_")
COUNTED: Final = {
    "call_count_in_run_gt": "run",
    "call_count_in_session_gt": "session",
    "call_count_in_window_gt": "window",
}


class Counter(NamedTuple):
    """What is counted: attempts at one tool or at all, in a run, a session or a window of seconds."""

    scope: str
    tool: str | None
    seconds: float = 0.0
    most: int = 0  # a window remembers no more than it takes to know that the threshold is passed


def counter_of(name: str, written: Count) -> Counter:
    """Return what a predicate counts."""
    if isinstance(written, WindowCount):
        return Counter(COUNTED[name], written.tool, written.window_seconds, written.value + 1)
    return Counter(COUNTED[name], written.tool)


def counters_of(when: When) -> list[Counter]:
    """Return what has to be counted for all predicates, those in groups too."""
    found: dict[Counter, None] = {}
    for name, value in given(when):
        if name in COUNTED:
            found[counter_of(name, value)] = None
        elif name in GROUPS:
            for inner in [value] if name == "not_" else value:
                found |= dict.fromkeys(counters_of(inner))
    return list(found)
