"""The sink ``console``: alerts for people, as a table on a wide terminal, as paragraphs or plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from io import TextIOWrapper
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from stream_guard import Alert, Sink, SinkError

if TYPE_CHECKING:
    from rich.console import Console

_STREAMS: Final = {"": "stdout", "-": "stdout", "stdout": "stdout", "stderr": "stderr"}
_STYLES: Final = {"critical": "bold white on red", "error": "bold red", "warning": "yellow", "info": "cyan"}
_NARROW: Final = 110  # columns below which there is no room for a table
_COLUMNS: Final = ("time", "severity", "rule", "session", "turn", "what")
_WIDTHS: Final = (19, 8, 24, 16, 4)  # of all columns but the last


class ConsoleSink(Sink):
    """Prints each alert. Control characters in agent text are spelled out, so a terminal never obeys them.

    Colours follow the terminal and ``NO_COLOR``.
    """

    direct: ClassVar[bool] = True

    def __init__(self, console: Console) -> None:
        self._console = console
        self._has_heading = False

    @classmethod
    def open(cls, target: str, *, position: int | None = None, settings: Any = None) -> Self:
        """Return the sink for ``stdout`` (also ``-`` and nothing) or ``stderr``."""
        del position, settings  # printed alerts cannot be looked up, and there is nothing to set
        # Slow to import, and only this sink needs it.
        from rich.console import Console  # noqa: PLC0415  (the line above says why)

        if target not in _STREAMS:
            raise SinkError(f'the sink "console" writes to stdout or stderr, not to {target!r}', retryable=False)
        stream = getattr(sys, _STREAMS[target])
        if isinstance(stream, TextIOWrapper):
            # On a terminal that knows only ASCII an alert must come out spelled, not as a crash.
            stream.reconfigure(errors="backslashreplace")
        return cls(Console(file=stream, highlight=False))

    def send(self, alerts: Sequence[Alert]) -> None:
        """Print all alerts."""
        if not alerts:
            return
        try:
            if self._console.is_terminal:
                self._print_rows(alerts)
            else:
                self._console.file.writelines(f"{_plain_line(alert)}\n" for alert in alerts)
            self._console.file.flush()
        except BrokenPipeError as error:
            raise SinkError("whoever read the alerts has gone away", retryable=False) from error
        except OSError as error:
            raise SinkError(f"alerts could not be printed: {error}", retryable=True) from error

    def _print_rows(self, alerts: Sequence[Alert]) -> None:
        from rich.table import Table  # noqa: PLC0415  (slow to import, see open)
        from rich.text import Text  # noqa: PLC0415  (slow to import, see open)

        rows = [_cells(alert) for alert in alerts]
        fits = all(len(cell) <= width for row in rows for cell, width in zip(row, _WIDTHS, strict=False))
        if self._console.width < _NARROW or not fits:
            self._print_paragraphs(rows)
            return
        table = Table(box=None, show_header=not self._has_heading, pad_edge=False, expand=True)
        self._has_heading = True
        # Fixed widths: rows that are printed later must stand under the same headings.
        for name, width in zip(_COLUMNS, _WIDTHS, strict=False):
            table.add_column(name, width=width)
        table.add_column(_COLUMNS[-1], ratio=1, overflow="fold")
        for clock, severity, *others in rows:
            # Text, not str: square brackets in agent text would be markup.
            table.add_row(Text(clock), Text(severity, style=_STYLES.get(severity, "")), *map(Text, others))
        self._console.print(table)

    def _print_paragraphs(self, rows: Sequence[tuple[str, ...]]) -> None:
        """Print each alert over the whole width: in columns, ids would fall apart."""
        from rich.text import Text  # noqa: PLC0415  (slow to import, see open)

        for clock, severity, rule, session, turn, what in rows:
            place = f"{rule} {session} turn {turn}" if turn else f"{rule} {session}"
            text = f"{clock[-8:]} {severity.upper()} {place}: {what}".strip()
            width = self._console.width
            lines = wrap(text, width, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
            shown = Text("\n".join(lines))
            start = text.index(severity.upper())
            shown.stylize(_STYLES.get(severity, ""), start, start + len(severity))
            self._console.print(shown, soft_wrap=True)  # an id that is longer than a line stays whole


def make_visible(text: str) -> str:
    """Return the text on one line. Characters that move the cursor or change the text's direction are spelled out."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _spell(char) for char in text)


def _spell(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cells(alert: Alert) -> tuple[str, ...]:
    what = alert.detail
    if alert.reason:
        what = f"{what} ({alert.reason})"
    if alert.shadow:
        what = f"in shadow mode: {what}"
    if alert.suppressed:
        what = f"{what} [{alert.suppressed} suppressed before it]"
    turn = "" if alert.index is None else str(alert.index)
    return tuple(map(make_visible, (_clock(alert.time), alert.severity, alert.rule_id, alert.session_id, turn, what)))


def _plain_line(alert: Alert) -> str:
    clock, severity, rule, session, turn, what = _cells(alert)
    return f"{clock or '-'} {severity.upper()} {rule} session={session} turn={turn or '-'}: {what}"


def _clock(time: float | None) -> str:
    if time is None:
        return ""
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # in-process callers may say anything
        return str(time)
