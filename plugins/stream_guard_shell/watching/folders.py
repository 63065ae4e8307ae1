"""Where coding agents keep their sessions, and what was added to those files since the last look."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

AGENT_FOLDERS: Final = (
    ".claude/projects", ".codex/sessions", ".copilot/session-state", ".qwen/projects", ".factory/projects",
    ".factory/sessions", ".kimi-code/sessions", ".kimi/sessions", ".gemini/tmp", ".cursor/projects",
    ".local/share/goose/sessions",
)  # fmt: skip
"""Below the home folder, as the agents of today name them."""

_MOST_FILES: Final = 2_000
_MOST_DEPTH: Final = 6
_MOST_BYTES: Final = 64 * 2**20  # of one file at one look; the rest comes with the next


class NewLine(NamedTuple):
    """A line that was added to a file, with its place in it."""

    file: str
    offset: int
    text: bytes


def existing_folders(home: Path) -> list[Path]:
    """Return the folders of agents that this machine has."""
    return [home / name for name in AGENT_FOLDERS if (home / name).is_dir()]


class FileFollower:
    """Follows the ``.jsonl`` files below some folders; one that was not written since ``newer_than`` is passed over."""

    def __init__(self, folders: Sequence[Path], newer_than: float) -> None:
        self._folders = folders
        self._newer_than = newer_than
        self._read_up_to: dict[str, int] = {}

    def look(self) -> Iterator[NewLine]:
        """Yield the whole lines that were added since the last look, oldest file first."""
        found = sorted(entry for folder in self._folders for entry in _files(str(folder), 0))
        for changed, file, size in found[-_MOST_FILES:]:
            before = self._read_up_to.get(file, 0)
            if size < before:
                before = 0  # written anew
            if size > before and (changed >= self._newer_than or file in self._read_up_to):
                yield from self._new_lines(file, before)

    def _new_lines(self, file: str, before: int) -> Iterator[NewLine]:
        try:
            with Path(file).open("rb") as opened:
                opened.seek(before)
                read = opened.read(_MOST_BYTES)
        except OSError:
            return
        whole = read[: read.rfind(b"\n") + 1]
        self._read_up_to[file] = before + len(whole)
        offset = before
        for line in whole.splitlines(keepends=True):
            if line.strip():
                yield NewLine(file, offset, line)
            offset += len(line)


def _files(folder: str, depth: int) -> Iterator[tuple[float, str, int]]:
    """Yield when each file was written, its name and its size. Links are not followed: they may lead in a circle."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        try:
            about = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(about.st_mode) and depth < _MOST_DEPTH:
            yield from _files(entry.path, depth + 1)
        elif stat.S_ISREG(about.st_mode) and entry.name.endswith(".jsonl"):
            yield about.st_mtime, entry.path, about.st_size
