"""The deadlines of sessions, the earliest first."""

from __future__ import annotations

import heapq
from math import inf


class Deadlines:
    """Deadlines with the ids of their sessions; of the same time, in the order of the ids."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def first(self) -> float:
        """Return the earliest deadline; infinity when there is none."""
        return self._heap[0][0] if self._heap else inf

    def push(self, deadline: float, session_id: str) -> None:
        """Add a deadline. A session may have several."""
        heapq.heappush(self._heap, (deadline, session_id))

    def pop(self, until: float = inf) -> str | None:
        """Take the earliest deadline away and return whose it was; None when it is after ``until``."""
        if not self._heap or self._heap[0][0] > until:
            return None
        return heapq.heappop(self._heap)[1]

    def bring_forward(self, seconds: float) -> None:
        """Let all deadlines be that much earlier."""
        self._heap = [(deadline - seconds, session_id) for deadline, session_id in self._heap]
        heapq.heapify(self._heap)  # two that were apart by less than a rounding are of the same time now
