"""Who may write a partition's rows: its latest owner, and whatever an earlier one writes after it does not count.

A worker that was frozen does not know that its partitions have another owner by now. Every owner takes a number
that is higher than all in the partition's changelog, and writes it there before anything else, and with every row. Who
reads the rows passes over those whose number is lower than one that came before them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_HEADER: Final = "owner"


class EpochFence:
    """The owners' numbers, by partition: those that were read, and our own."""

    def __init__(self) -> None:
        self._steps: dict[int, list[tuple[int, int]]] = {}  # offsets at which a higher number stands, and the number
        self._ours: dict[int, int] = {}
        self._marks: dict[int, list[tuple[str, bytes]]] = {}  # ours, as they are written
        self._stale: dict[int, set[bytes]] = {}  # keys whose last row does not count

    def admits(self, partition: int, offset: int, key: bytes, headers: Iterable[tuple[str, bytes]]) -> bool:
        """Whether the row at an offset counts; rows are asked about in order, and may be read again from anywhere."""
        number = next((int.from_bytes(value, "big") for name, value in headers if name == _HEADER), 0)
        steps, stale = self._steps.setdefault(partition, []), self._stale.setdefault(partition, set())
        while steps and steps[-1][0] >= offset:
            steps.pop()
        highest = steps[-1][1] if steps else 0
        if number < highest:
            stale.add(key)
            return False
        if number > highest:
            steps.append((offset, number))
        stale.discard(key)
        return True

    def take(self, partition: int) -> set[bytes]:
        """Become the owner of a partition whose rows were read; return the keys that have to be written again."""
        steps = self._steps.get(partition)
        number = max(steps[-1][1] if steps else 0, self._ours.get(partition, 0)) + 1
        self._ours[partition] = number
        self._marks[partition] = [(_HEADER, number.to_bytes(8, "big"))]
        return self._stale.pop(partition, set())

    def mark(self, partition: int) -> list[tuple[str, bytes]]:
        """Return what every row of ours carries."""
        return self._marks.get(partition, [])
