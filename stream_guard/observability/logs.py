"""Logs on standard error: lines for people, or JSON for machines.

Messages are about files, topics, rules and numbers, never about an agent's text. What looks like a secret is masked.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any, Final, TextIO

from stream_guard.redaction import mask_secrets, redact
from stream_guard.settings import LogSettings

_ROOTS: Final = ("stream_guard", "stream_guard_sinks")
_PAUSE: Final = 10.0  # seconds in which a message of another package is logged once
_LONGEST: Final = 4_000  # characters of one message: a log is read by people
# The attributes of every record; the others were passed as ``extra``.
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object on one line: time, level, logger, message, and the ``extra`` values."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a value that is not JSON becomes its text."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _clean(record.getMessage()),
        }
        for name, value in vars(record).items():
            if name not in _OWN and name not in line:
                line[name] = redact(value) if isinstance(value, str | int | float | dict | list) else _clean(str(value))
        if record.exc_info:
            line["error"] = _clean("".join(traceback.format_exception(*record.exc_info)))
        # ASCII: a character that ends a line for some reader, or a lone surrogate, must not break the format.
        return json.dumps(line, default=str)


class PlainLines(logging.Formatter):
    """One line for people; control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback below it where there is one."""
        clock = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in _clean(record.getMessage()))
        line = f"{clock} {record.levelname.lower()} {text}"
        if record.exc_info:
            line += "\n" + _clean("".join(traceback.format_exception(*record.exc_info)).rstrip())
        return line


class RepeatFilter(logging.Filter):
    """Passes the messages of one line of code at most once in some seconds.

    A client that cannot reach its broker logs that several times a second.
    """

    def __init__(self, seconds: float = _PAUSE) -> None:
        super().__init__()
        self._seconds = seconds
        self._last_passed: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line of code that logs has not logged for that long."""
        place = (record.pathname, record.lineno)
        if record.created - self._last_passed.get(place, -inf) < self._seconds:
            return False
        self._last_passed[place] = record.created
        return True


def set_up_logs(log: LogSettings, stream: TextIO | None = None, *, others: Sequence[str] = ()) -> Callable[[], None]:
    """Log this package's messages to standard error, in the format and from the level of the settings.

    A command calls it, imported code never does. Another call replaces the first one. The packages in ``others`` use
    the same format, from warnings on and without repetition. Returns what puts the loggers back as they were.
    """
    before = [(logger, logger.level, list(logger.handlers)) for logger in map(logging.getLogger, (*_ROOTS, *others))]
    handler = _handler(log, stream)
    for name in _ROOTS:
        _attach(handler, logging.getLogger(name), log.level.upper())
    other_handler = _handler(log, stream)
    other_handler.addFilter(RepeatFilter())
    for name in others:
        _attach(other_handler, logging.getLogger(name), "WARNING" if log.level != "error" else "ERROR")
    return lambda: _put_back(before)


def _put_back(before: Iterable[tuple[logging.Logger, int, list[logging.Handler]]]) -> None:
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


def _handler(log: LogSettings, stream: TextIO | None) -> logging.Handler:
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if log.format == "json" else PlainLines())
    return handler


def _attach(handler: logging.Handler, logger: logging.Logger, level: str) -> None:
    for old in [old for old in logger.handlers if isinstance(old.formatter, JsonLines | PlainLines)]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(level)


def _clean(text: str) -> str:
    # A stream cannot write a lone surrogate, as a file name may have.
    masked = mask_secrets(text.encode("utf-8", "backslashreplace").decode())
    return masked if len(masked) <= _LONGEST else f"{masked[:_LONGEST]}… ({len(masked)} characters)"
