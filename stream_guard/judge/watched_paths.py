"""Paths that a rule cannot do without. Until one of them is seen in an event, the engine looks out for it.

What was seen is no longer looked for, so that a rule whose paths all occur costs nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final, TypeAlias

from stream_guard.judge.bound import BoundRule
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Event, ToolCall
from stream_guard.judge.paths import MISSING, Finder, Path, When

MOST_FIELDS: Final = 1000  # names of arguments that are remembered for advice


_Awaited: TypeAlias = list[tuple[tuple[str, str], Finder]]
"""The id of each rule with the path that it needs, and what finds the value there."""


class PathWatch:
    """Paths that no event had so far, each with the id of the rule that needs it."""

    __slots__ = ("_awaited", "_finders", "_seen")

    def __init__(self, awaited: list[tuple[str, Path]]) -> None:
        self._awaited: _Awaited = [((rule_id, path.text), path.finder) for rule_id, path in awaited]
        self._finders = [finder for _, finder in self._awaited]
        self._seen = 0  # how many paths were seen when this one last looked: no more of them, nothing to strike off

    def look(self, event: Event, counts: Counts) -> bool:
        """Take the paths that the event has off the list; whether any are left.

        Where a path is not there, the names of the arguments are remembered: one of them may have been meant.
        """
        seen, left = counts.paths, self._awaited
        if len(seen) != self._seen or self._has_one(event):
            self._awaited = left = self._strike_off(event, counts)
            self._finders = [finder for _, finder in left]
            self._seen = len(seen)
        if left and type(event) is ToolCall and isinstance(event.args, dict) and len(counts.fields) < MOST_FIELDS:
            for name in event.args:
                counts.fields[f"tool.args.{name}"[:200]] += 1
        return bool(left)

    def _has_one(self, event: Event) -> bool:
        for finder in self._finders:  # noqa: SIM110  # compiled, a loop takes half of what any() takes
            if finder.find(event) is not MISSING:
                return True
        return False

    def _strike_off(self, event: Event, counts: Counts) -> _Awaited:
        """Count the paths that the event has; return those that were never seen."""
        for path, finder in self._awaited:
            if finder.find(event) is not MISSING:
                counts.paths[path] += 1
        return [awaited for awaited in self._awaited if awaited[0] not in counts.paths]


def watch(bounds: Iterable[BoundRule], about: Container[When]) -> PathWatch | None:
    """Return the watch over the paths of rules that are about these things; None where there is none."""
    awaited = awaited_paths(bounds, about)
    return PathWatch(awaited) if awaited else None


def awaited_paths(bounds: Iterable[BoundRule], about: Container[When]) -> list[tuple[str, Path]]:
    """Return the paths of rules that are about these things, each with the id of its rule."""
    return [(bound.spec.id, path) for bound in bounds for path in bound.needed_paths if path.when in about]
