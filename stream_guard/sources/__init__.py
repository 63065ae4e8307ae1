"""Where records come from: a file, a folder, standard input, the topics of a Kafka cluster, exports over HTTP."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event as Flag
from urllib.parse import parse_qs

from stream_guard.errors import SourceError
from stream_guard.kafka.address import SCHEME
from stream_guard.ports import Source
from stream_guard.settings import DecodeSettings, KafkaSettings, ReceiverSettings
from stream_guard.sources.archive import ROWS, find_files, open_archive
from stream_guard.sources.archive import SUFFIXES as ARCHIVE_SUFFIXES
from stream_guard.sources.folder import SUFFIXES as FOLDER_SUFFIXES
from stream_guard.sources.folder import FolderSource
from stream_guard.sources.kafka import open_kafka
from stream_guard.sources.lines import FileSource, PipeSource
from stream_guard.sources.marks import FileMark
from stream_guard.sources.otlp import SCHEME as OTLP
from stream_guard.sources.otlp import open_otlp

__all__ = ["is_endless", "open_source"]

_logger = logging.getLogger(__name__)


def is_endless(target: str) -> bool:
    """Whether a run follows this input by default, and waits for more at its end."""
    if target.startswith(OTLP):
        return True
    if target.startswith(SCHEME):
        return "to" not in parse_qs(target.partition("?")[2])
    return Path(target).is_dir()


def is_written(target: str) -> bool:
    """Whether the records of this input are there already; those of a pipe and of a receiver come when they happen."""
    return target.startswith(SCHEME) or not (target == "-" or target.startswith(OTLP) or Path(target).is_fifo())


def open_source(  # noqa: PLR0911  # one for each sort of source
    target: str,
    *,
    follow: bool = False,
    limits: DecodeSettings | None = None,
    positions: Mapping[str, int] | None = None,
    marks: Mapping[str, FileMark] | None = None,
    stop: Flag | None = None,
    kafka: KafkaSettings | None = None,
    receiver: ReceiverSettings | None = None,
) -> Source:
    """Return the source for a file, a folder, ``-`` for standard input, ``kafka://...`` or ``otlp://...``.

    SourceError where there is none.

    Iteration ends at the end of the input, which a followed source does not have. ``stop`` only ends a wait early:
    the source yields None, and the caller decides whether to stop. ``positions`` and ``marks`` are what an
    earlier run's ``positions()`` and ``marks()`` returned.
    """
    limit = (limits or DecodeSettings()).max_record_bytes
    if target.startswith(SCHEME):
        return open_kafka(target, kafka, follow=follow, limit=limit, positions=positions or {})
    if target.startswith(OTLP):
        settings = receiver or ReceiverSettings()
        return open_otlp(target, settings, most=limit, positions=positions or {}, stop=stop or Flag())
    if target == "-":
        return _open_stdin(limit)
    # Absolute, because positions are stored by path and the next run may start in another folder.
    path = Path(target).absolute()
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise SourceError(f"{target}: {error.strerror}; give a file, a folder, or - for standard input") from error
    if not follow and _is_archive(path, mode):
        return open_archive(path, limit=limit, positions=positions or {})
    if stat.S_ISDIR(mode):
        if follow:
            _say_unfollowed(path)
        return FolderSource(
            path, follow=follow, limit=limit, positions=positions or {}, stop=stop or Flag(), marks=marks
        )
    if stat.S_ISREG(mode):
        return FileSource(path, follow=follow, limit=limit, positions=positions or {}, stop=stop or Flag(), marks=marks)
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return PipeSource(os.open(path, os.O_RDONLY | os.O_CLOEXEC), str(path), limit=limit, owned=True)
    raise SourceError(f"{target}: neither a file, a folder nor a pipe")


def _is_archive(path: Path, mode: int) -> bool:
    """Whether it is an archive: a file of rows, or a folder with more than files of JSON lines in it."""
    if stat.S_ISREG(mode):
        return path.suffix in ROWS
    if not stat.S_ISDIR(mode):
        return False
    try:
        names = [entry.name for entry in path.iterdir()]
    except OSError as error:
        raise SourceError(f"{path}: cannot be listed: {error.strerror}") from error
    read = [name for name in names if name.endswith(ARCHIVE_SUFFIXES) and not name.startswith(".")]
    if not read or not all(name.endswith(FOLDER_SUFFIXES) for name in read):
        return True
    return any(file.parent != path for file in find_files(path))


def _say_unfollowed(path: Path) -> None:
    """Log which files of a folder could be read, but are none that grow line by line."""
    others = [file for file in find_files(path) if not file.name.endswith(FOLDER_SUFFIXES)]
    if others:
        endings = ", ".join(sorted({file.suffix for file in others}))
        _logger.warning(
            "%s: %d files that end in %s are not followed; read them with check, or with run --no-follow",
            path,
            len(others),
            endings,
        )


def _open_stdin(limit: int) -> PipeSource:
    try:
        fd = sys.stdin.fileno()
    except (AttributeError, ValueError, OSError) as error:  # None, closed, or replaced by something without a file
        raise SourceError("standard input is closed; give a file or a folder") from error
    return PipeSource(fd, "stdin", limit=limit, owned=False)
