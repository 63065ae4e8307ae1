"""JSON lines from a folder, and the folders below it, whose files may grow in number and in size."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event as Flag
from typing import Final, TypeAlias

from stream_guard.errors import SourceError
from stream_guard.ports import Record
from stream_guard.sources.lines import POLL, LineFile
from stream_guard.sources.marks import FileMark, find_inode

SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_REST: Final = 10.0  # how much longer than a scan the rest after it is: thousands of files must not take all of a core

Identity: TypeAlias = tuple[int, int]  # device and inode: a file keeps it when it gets another name

_logger = logging.getLogger(__name__)


class FolderSource:
    """The records of every ``*.jsonl``, plain or packed, in a folder and in those below it, by path.

    When following, the folders are scanned again for new files and new lines. A renamed file is continued at its
    position; a file that became shorter is read from its beginning. A bad file does not stop the others: ``problems``
    says what is wrong with it. Links to folders, and those that lead out of the folder, are refused; hidden files and
    folders are ignored.
    """

    def __init__(
        self,
        folder: Path,
        *,
        follow: bool,
        limit: int,
        positions: Mapping[str, int],
        stop: Flag,
        marks: Mapping[str, FileMark] | None = None,
    ) -> None:
        self.problems: dict[str, str] = {}  # by path
        self._folder = folder
        self._real_folder = folder.resolve()
        self._follow = follow
        self._limit = limit
        self._stop = stop
        self._unseen = dict(positions)  # of files that were not found yet
        self._marks = dict(marks or {})
        self._files: dict[Identity, LineFile] = {}
        self._sizes: dict[Identity, int] = {}  # at the last scan
        if not self._scan()[0]:
            nothing = f"{folder}: no file in it, or in a folder below, ends in {' or '.join(SUFFIXES)}"
            if not follow:
                raise SourceError(f"{nothing}; name another folder, or follow it")
            _logger.warning("%s; waiting for the first one", nothing)

    def __iter__(self) -> Iterator[Record | None]:
        while True:
            found = False
            began = time.monotonic()
            known, gone = self._scan()
            took = time.monotonic() - began
            for file in gone:
                if file.path.exists():
                    yield from self._read(file, None)
                yield from file.lines.last()
            for identity, (file, size) in known.items():
                if self._sizes.get(identity) != size:
                    self._sizes[identity] = size
                    before = file.lines.position
                    yield from self._read(file, size if self._follow and not file.packed else None)
                    found = found or file.lines.position != before
                    if not self._follow:
                        yield from file.lines.last()
            if not self._follow:
                return
            if not found:
                yield None
                self._stop.wait(max(POLL, _REST * took))

    def positions(self) -> Mapping[str, int]:
        """Where the next record starts, by file."""
        return self._unseen | {file.lines.origin: file.lines.position for file in self._files.values()}

    def marks(self) -> Mapping[str, FileMark]:
        """How the files are recognised after a stop."""
        found = {file.lines.origin: file.mark() for file in self._files.values()}
        return self._marks | {origin: mark for origin, mark in found.items() if mark is not None}

    def close(self) -> None:
        """Close what is open."""
        for file in self._files.values():
            file.close()

    def _read(self, file: LineFile, until: int | None) -> Iterator[Record]:
        try:
            yield from file.read(until)
        except SourceError as error:
            self._report(file.path, str(error))
        finally:
            file.close()  # thousands of files must not be open at once

    def _scan(self) -> tuple[dict[Identity, tuple[LineFile, int]], list[LineFile]]:
        """Return the files of the folder with their sizes, and the files that are gone."""
        there: dict[Identity, tuple[Path, int]] = {}
        for identity, path, size in self._matching():
            there.setdefault(identity, (path, size))  # a file with two names is one file
        gone = [self._forget(identity) for identity in list(self._files) if identity not in there]
        for identity, (path, size) in there.items():
            file = self._files.get(identity)
            if file is None:
                file = self._files[identity] = self._resume(path, identity)
            elif file.lines.origin != str(path):
                _logger.warning("%s is now called %s; it is read on", file.lines.origin, path.name)
                file.path, file.lines.origin = self._target(path), str(path)
            if size < self._sizes.get(identity, 0):
                file.start_over("became shorter")
        return {identity: (self._files[identity], size) for identity, (_, size) in there.items()}, gone

    def _resume(self, path: Path, identity: Identity) -> LineFile:
        """Return a file at the position up to which an earlier run read it, maybe under another name."""
        origin = str(path)
        renamed = (name for name, mark in self._marks.items() if mark.inode == identity[1] and name in self._unseen)
        before = next(renamed, origin)
        if before != origin:
            _logger.warning("%s is now called %s; it is read on", before, path.name)
        elif (mark := self._marks.get(origin)) is not None and find_inode(path.parent, mark.inode) not in (None, path):
            before = ""  # the file that had this name has another one now
        position = self._unseen.pop(before, 0)
        mark = self._marks.pop(before, None)
        return LineFile(self._target(path), origin, limit=self._limit, position=position, mark=mark)

    def _matching(self) -> Iterator[tuple[Identity, Path, int]]:
        for entry in self._entries():
            path = Path(entry.path)
            try:
                status = entry.stat()
                inside = not entry.is_symlink() or path.resolve().is_relative_to(self._real_folder)
            except OSError as error:  # it was removed just now, or is a broken link
                self._report(path, f"{path}: cannot be read: {error.strerror}")
                continue
            if not inside:
                self._report(path, f"{path}: refused, it is a link that leads out of the folder")
            elif not stat.S_ISREG(status.st_mode):
                self._report(path, f"{path}: ignored, it is not a regular file")
            else:
                yield (status.st_dev, status.st_ino), path, status.st_size

    def _entries(self) -> list[os.DirEntry[str]]:
        """Return what has the name of a file to read, in this folder and in those below it, by path."""
        found: list[os.DirEntry[str]] = []
        folders = [self._folder]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.name.startswith("."):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(Path(entry.path))
                        elif entry.is_symlink() and Path(entry.path).is_dir():
                            self._report(Path(entry.path), f"{entry.path}: refused, it is a link to a folder")
                        elif entry.name.endswith(SUFFIXES):
                            found.append(entry)
            except OSError as error:
                problem = f"{folder}: cannot be listed: {error.strerror}"
                if folder == self._folder:
                    raise SourceError(problem) from error
                self._report(folder, problem)
        return sorted(found, key=lambda entry: entry.path.split("/"))

    def _target(self, path: Path) -> Path:
        return path.resolve() if path.is_symlink() else path

    def _forget(self, identity: Identity) -> LineFile:
        """Drop a file that is gone, or that now has a name that is not read."""
        file = self._files.pop(identity)
        self._sizes.pop(identity, None)
        # Rotation: lines may have been written between the last scan and the renaming.
        moved = find_inode(file.path.parent, identity[1])
        if moved is None:
            _logger.warning("%s is gone; what was written to it after the last look is not read", file.path)
        else:
            file.path = moved
        return file

    def _report(self, path: Path, problem: str) -> None:
        if self.problems.get(str(path)) != problem:
            self.problems[str(path)] = problem
            _logger.warning("%s", problem)
