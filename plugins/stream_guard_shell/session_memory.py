"""What a session made and fetched, as far as it is remembered."""

from __future__ import annotations

from typing import Final

import stream_guard as sg
from stream_guard_shell.acts import UNKNOWN_FOLDER, SessionPlace, folder_of, home_of
from stream_guard_shell.effects import CommandReading

MOST_PATHS: Final = 96
LONGEST: Final = 256  # bytes of a path that is remembered


class MadePath(sg.State):
    """A path that the session made, and the attempt that made it."""

    path: str
    attempt: int


class SessionMemory(sg.State):
    """The folder of a session, and what it made and fetched."""

    project: str = ""
    created: list[MadePath] = []
    fetched: list[str] = []
    forgot: bool = False  # more was fetched than is remembered


def place_of(call: sg.ToolCall, memory: SessionMemory, project: str | None, home: str | None) -> SessionPlace:
    """Return where a call happens; the first folder that a session names is its project."""
    folder = folder_of(call)
    if not memory.project and (project or folder):
        memory.project = (project or folder)[:1024]
    here = folder or memory.project or UNKNOWN_FOLDER
    return SessionPlace(here, home or home_of(memory.project or here))


def project_of(memory: SessionMemory) -> str:
    """Return the folder of the session."""
    return memory.project or UNKNOWN_FOLDER


def remember(memory: SessionMemory, call: sg.ToolCall, reading: CommandReading) -> None:
    """Remember what a call makes and fetches."""
    made = [MadePath(path, call.attempt) for path in reading.made if _fits(path)]
    memory.created = [*memory.created, *made][-MOST_PATHS:]
    fetched = [path for path in reading.fetched if path not in memory.fetched]
    kept = [path for path in fetched if _fits(path)]
    memory.forgot = memory.forgot or len(kept) < len(fetched) or len(memory.fetched) + len(kept) > MOST_PATHS
    memory.fetched = [*memory.fetched, *kept][-MOST_PATHS:]


def forget_attempt(memory: SessionMemory, attempt: int) -> None:
    """Take back what an attempt would have made: it failed, or was stopped."""
    if any(made.attempt == attempt for made in memory.created):
        memory.created = [made for made in memory.created if made.attempt != attempt]


def created_in(memory: SessionMemory) -> frozenset[str]:
    """Return what the session made."""
    return frozenset(made.path for made in memory.created)


def _fits(path: str) -> bool:
    return len(path.encode("utf-8", "replace")) <= LONGEST
