"""Timelines on a terminal: wrapped to its width, nothing cut, and colours only where they are wanted."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.text import Text

from stream_guard.explaining.near_misses import NearMiss
from stream_guard.explaining.timeline import TimelineEntry, TimelineFinding
from stream_guard.reports.safe import visible

STYLES: Final = {"critical": "bold white on red", "error": "bold red", "warning": "yellow", "info": "cyan"}
_SHORT: Final = 60  # characters of an event beside something else
_NARROW: Final = 60  # columns below which there is no room for the time


class TimelinePrinter:
    """Prints entries of timelines. Ids stay whole: what does not fit goes on below."""

    def __init__(self, console: Console, file: str = "") -> None:
        self._console = console
        self._file = file  # named before: of entries in it, the line is enough

    def heading(self, text: str) -> None:
        """Print a heading, after an empty line."""
        self._console.print()
        self.line(text, style="bold")

    def line(self, text: str, *, indent: int = 0, hanging: int | None = None, style: str = "") -> None:
        """Print a text, wrapped; its further lines are indented like the first, unless ``hanging`` says how far."""
        further = indent if hanging is None else hanging
        for part in _wrapped(text, self._console.width, " " * indent, " " * further):
            self._console.print(Text(part, style=style), soft_wrap=True)

    def entry(self, entry: TimelineEntry, *, rule: str | None = None, mark: bool = False) -> None:
        """Print one entry with what it changed; with ``rule``, only what it changed for that rule."""
        turn = "" if entry.index is None else str(entry.index)
        clock = f" {clock_of(entry.time):8}" if self._console.width >= _NARROW else ""
        first = f"{'>' if mark else ' '} {turn:>4}{clock}  "
        indent = " " * len(first)
        place = f" (line {entry.line})" if entry.line and entry.file == self._file else _place(entry)
        for part in _wrapped(f"{entry.what}{place}", self._console.width, first, indent):
            self._console.print(Text(part, style="bold" if mark else ""), soft_wrap=True)
        for change in entry.changes:
            if rule is None or change.rule_id == rule:
                key = f" [{visible(change.key)}]" if change.key else ""
                text = visible(f"{change.rule_id}{key}: {change.before} -> {change.after}")
                for part in _wrapped(text, self._console.width, f"{indent}  ", f"{indent}    "):
                    self._console.print(Text(part, style="dim"), soft_wrap=True)
        for finding in entry.findings:
            self._finding(finding, indent)

    def _finding(self, finding: TimelineFinding, indent: str) -> None:
        shadow = " (shadow)" if finding.shadow else ""
        alert = finding.alert_id
        text = f"{finding.severity.upper()}{shadow} {visible(finding.rule_id)}: {finding.detail} [{alert}]"
        for part in _wrapped(text, self._console.width, f"{indent}", f"{indent}  "):
            self._console.print(Text(part, style=STYLES.get(finding.severity, "")), soft_wrap=True)

    def entries(self, entries: Iterable[TimelineEntry], *, rule: str | None = None, marked: int | None = None) -> None:
        """Print entries in order; where some between them are left out, say how many."""
        last: int | None = None
        for entry in entries:
            if last is not None and entry.number > last + 1:
                self.line(f"... {entry.number - last - 1} more", indent=2, style="dim")
            self.entry(entry, rule=rule, mark=entry.number == marked)
            last = entry.number


def file_of(entries: Iterable[TimelineEntry]) -> str:
    """Return the file that entries come from, where it is one."""
    files = {entry.file for entry in entries if entry.line}
    return files.pop() if len(files) == 1 else ""


def _place(entry: TimelineEntry) -> str:
    return f" ({visible(entry.file)}:{entry.line})" if entry.line else ""


def near_miss_words(miss: NearMiss) -> str:
    """Return what was lacking, and where the rule came closest."""
    what = miss.what if len(miss.what) <= _SHORT else f"{miss.what[: _SHORT - 1]}…"
    where = what if miss.index is None else f"{what}, turn {miss.index}"
    return f"{'; '.join(miss.lacks)} (at {where})"


def clock_of(time: float | None) -> str:
    """Return the time of day of a time, in UTC."""
    if time is None:
        return ""
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):  # producers may say anything
        return "?"


def _wrapped(text: str, width: int, first: str, hanging: str) -> Iterator[str]:
    room = max(width, len(first) + 20)
    yield from textwrap.wrap(
        text, room, initial_indent=first, subsequent_indent=hanging, break_on_hyphens=False, drop_whitespace=True
    ) or [first]
