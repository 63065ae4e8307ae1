"""Marks of files: how a run recognises, after a stop, the file that it read before.

A mark is the file's inode and a digest of the bytes at its head and before its position. The bytes decide: a file that
was copied back has another inode and is read on, a file that was emptied and written anew keeps its inode and is read
from its start. The inode finds a file under its other name after a rotation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol, runtime_checkable

import xxhash

_WINDOW: Final = 4096  # bytes at the head, and as many before the position


class FileMark(NamedTuple):
    """What is remembered of a file beside its position."""

    inode: int
    head: int  # how many bytes at the head were digested
    digest: str


@runtime_checkable
class MarkedSource(Protocol):
    """A source whose files can be recognised after a stop."""

    def marks(self) -> Mapping[str, FileMark]:
        """Return the marks of the files, by origin, for the present positions."""


def make_mark(fd: int, position: int, *, packed: bool) -> FileMark:
    """Return the mark of an open file. The position in a packed file is no place in it: there only the head counts."""
    status = os.fstat(fd)
    head = min(_WINDOW, status.st_size if packed else position)
    return FileMark(status.st_ino, head, _digest(fd, head, 0 if packed else position))


def is_marked(fd: int, position: int, mark: FileMark, *, packed: bool) -> bool:
    """Whether an open file begins as the marked one did, and has the same bytes before the position."""
    return mark.digest == _digest(fd, mark.head, 0 if packed else position)


def find_inode(folder: Path, inode: int) -> Path | None:
    """Return the file of a folder that has this inode, whatever it is called now."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.inode() == inode and entry.is_file(follow_symlinks=False):
                    return Path(entry.path)
    except OSError:
        return None
    return None


def _digest(fd: int, head: int, position: int) -> str:
    tail = min(_WINDOW, position)
    return xxhash.xxh3_64_hexdigest(os.pread(fd, head, 0) + os.pread(fd, tail, position - tail))
