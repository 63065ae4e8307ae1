"""Paths that a rule cannot do without. Until one of them is seen in an event, the engine looks out for it.

What was seen is no longer looked for, so that a rule whose paths all occur costs nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from stream_guard.engine.bound import BoundRule
from stream_guard.language.paths import MISSING, Path, When
from stream_guard.model import Event, ToolCall
from stream_guard.observability.counts import Counts

MOST_FIELDS: Final = 1000  # names of arguments that are remembered for advice


class PathWatch:
    """Paths that no event had so far, each with the id of the rule that needs it."""

    __slots__ = ("_awaited",)

    def __init__(self, awaited: list[tuple[str, Path]]) -> None:
        self._awaited = awaited

    def look(self, event: Event, counts: Counts) -> bool:
        """Take the paths that the event has off the list; whether any are left.

        Where a path is not there, the names of the arguments are remembered: one of them may have been meant.
        """
        left = []
        for awaited in self._awaited:
            rule_id, path = awaited
            if path.find(event) is not MISSING:
                counts.paths[rule_id, path.text] += 1
            elif (rule_id, path.text) not in counts.paths:
                left.append(awaited)
        self._awaited = left
        if left and isinstance(event, ToolCall) and isinstance(event.args, dict) and len(counts.fields) < MOST_FIELDS:
            for name in event.args:
                counts.fields[f"tool.args.{name}"[:200]] += 1
        return bool(left)


def watch(bounds: Iterable[BoundRule], about: Container[When]) -> PathWatch | None:
    """Return the watch over the paths of rules that are about these things; None where there is none."""
    awaited = [(bound.spec.id, path) for bound in bounds for path in bound.needed_paths if path.when in about]
    return PathWatch(awaited) if awaited else None
