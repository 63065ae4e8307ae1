"""The sink ``jsonl``: alerts as JSON lines, in a file or on standard output."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import msgspec

from stream_guard import Alert, LineLog, Sink, SinkError, encode_alert

STDOUT: Final = "-"


class _WrittenAlert(msgspec.Struct):
    """The part of a line that tells whether its alert was written before."""

    alert_id: str = ""


_read_back = msgspec.json.Decoder(_WrittenAlert).decode


class JsonLinesSink(Sink):
    """Appends each alert to a file as one line of JSON; ``-`` is standard output.

    A sent alert survives the end of the process at once, and a loss of power after the next ``flush``.
    """

    direct: ClassVar[bool] = True
    takes_all: ClassVar[bool] = True  # also behind a route

    def __init__(self, target: str, log: LineLog | None) -> None:
        self._target = target
        self._log = log

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        """Return the sink for a path, or for ``-``."""
        del settings  # there are none
        if not target:
            raise SinkError(
                'the sink "jsonl" needs a file: write jsonl:alerts.jsonl, or jsonl:- for stdout', retryable=False
            )
        if target == STDOUT:
            return cls(target, None)
        try:
            return cls(target, LineLog(Path(target), _identify, position=position))
        except OSError as error:
            raise _explain(target, error) from error

    def send(self, alerts: Sequence[Alert]) -> None:
        """Write all alerts that are not in the file yet. On SinkError none was written."""
        lines = [(alert.alert_id, encode_alert(alert)) for alert in alerts]
        try:
            if self._log is not None:
                self._log.append(lines)
            else:
                sys.stdout.buffer.write(b"".join([line + b"\n" for _, line in lines]))
                sys.stdout.buffer.flush()
        except OSError as error:
            raise _explain(self._target, error) from error

    def flush(self) -> int:
        """Sync the file to the disk, and return its length."""
        try:
            return 0 if self._log is None else self._log.flush()
        except OSError as error:
            raise _explain(self._target, error) from error

    def close(self) -> None:
        """Flush, and close the file."""
        try:
            if self._log is not None:
                self._log.close()
        except OSError as error:
            raise _explain(self._target, error) from error


def _identify(line: bytes) -> str:
    try:
        return _read_back(line).alert_id
    except (ValueError, RecursionError):
        return ""


def _explain(target: str, error: OSError) -> SinkError:
    if isinstance(error, BlockingIOError):
        return SinkError(f"{target}: another process writes alerts to this file; give each its own", retryable=False)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return SinkError(
            f"{target}: no space left for alerts; none of this batch was written, free some", retryable=True
        )
    if isinstance(error, FileNotFoundError):
        return SinkError(f"{target}: the folder does not exist; create it", retryable=False)
    if isinstance(error, PermissionError | IsADirectoryError):
        return SinkError(f"{target}: cannot be written: {error.strerror}; choose another file", retryable=False)
    return SinkError(f"{target}: alerts could not be written: {error}", retryable=True)
