"""What is stored of a session, as a gate read or wrote it: by it the gate knows what has changed."""

from __future__ import annotations

from typing import TypeAlias

from stream_guard.judge.stored import StoredName

IdMark: TypeAlias = tuple[dict[int, int], int]
"""A generation of event ids, and how many of it are stored."""


class StoredMarks:
    """The calls, states and event ids of a stored session, and how many bytes of changes its row has room for."""

    __slots__ = ("calls", "ids", "room", "states")

    def __init__(self, states: dict[StoredName, bytes], calls: dict[int, bytes], ids: IdMark, room: int) -> None:
        self.states = states
        self.calls = calls
        self.ids = ids
        self.room = room
