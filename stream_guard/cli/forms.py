"""Words that options take: how findings are printed, which severity fails, how fast and by how many it goes."""

from __future__ import annotations

import json
import re
import time
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec
import typer

from stream_guard.commands import ListFormat
from stream_guard.errors import SettingsError

if TYPE_CHECKING:
    from rich.console import Console


FindingFormat: TypeAlias = Literal["table", "json", "jsonl"]
"""How findings are printed."""

ReportedFormat: TypeAlias = Literal["table", "json", "jsonl", "markdown", "sarif", "junit", "github", "html"]
"""How a check is printed."""

FORMAT_NEEDS: Final = {"sarif": "sarif_pydantic", "junit": "junitparser", "html": "jinja2"}
"""The modules of optional dependencies that some need."""

LeastSeverity: TypeAlias = Literal["info", "warning", "error", "critical"]
"""The severity from which on alerts are listed."""

FailOnSeverity: TypeAlias = Literal["none", "info", "warning", "error", "critical"]
FailOn: TypeAlias = Annotated[FailOnSeverity, typer.Option(help="Findings this severe, or more, make the exit code 1.")]
ProblemFormat: TypeAlias = Literal["table", "json", "github"]
Pace: TypeAlias = Literal["full", "original"]
_SHARED: Final = "Share the sessions among this many processes; auto: as many as there are cores."
Jobs: TypeAlias = Annotated[str, typer.Option("--jobs", "-j", help=_SHARED)]
ReplayJobs: TypeAlias = Annotated[str, typer.Option("--jobs", "-j", "--processes", help=_SHARED)]


# Print records as a table or as JSON, with control characters escaped.


_TOO_WIDE: Final = 1.5  # times the width of a terminal: then a table would only be columns of letters
_NARROWEST: Final = 10  # letters of a column that is wrapped
_WHOLE: Final = frozenset(("id", "session", "rule", "review", "incident"))  # the last word of headings above ids


def show(records: Sequence[msgspec.Struct], columns: Sequence[str], form: ListFormat) -> None:
    """Print records: all of each as JSON, or some columns as a table."""
    from rich.console import Console

    if form is ListFormat.JSON:
        typer.echo(json.dumps([msgspec.to_builtins(record) for record in records], indent=2))
        return
    rows = [[plain(getattr(record, name), name) for name in columns] for record in records]
    print_table([name.replace("_", " ") for name in columns], rows, Console(highlight=False))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    """Print a table that fits the terminal. Ids stay whole: the other columns are wrapped, or the table gives way.

    Without room for that, each row is a paragraph.
    """
    from rich.table import Table
    from rich.text import Text

    whole = [heading.split(" ")[-1] in _WHOLE for heading in headings]
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    least = sum(2 + (width if stays else min(width, _NARROWEST)) for width, stays in zip(widths, whole, strict=True))
    if console.is_terminal and (least > console.width or sum(widths) + 2 * len(widths) > _TOO_WIDE * console.width):
        for row in rows:
            for heading, cell in zip(headings, row, strict=True):
                console.print(Text(f"{heading}: {cell}"), soft_wrap=True)
            console.print()
        return
    table = Table(box=None, pad_edge=False)
    for column, heading in enumerate(headings):
        numbers = bool(rows) and all(row[column].lstrip("-").isdigit() or row[column] == "-" for row in rows)
        table.add_column(
            heading, overflow="fold", justify="right" if numbers else "left", no_wrap=whole[column] or numbers
        )
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def show_one(record: msgspec.Struct | dict[str, Any]) -> None:
    """Print one record whole, as JSON that can be read aloud: letters of all scripts, and nothing in disguise."""
    written = json.dumps(msgspec.to_builtins(record), indent=2, ensure_ascii=False)
    typer.echo("\n".join(map(undisguised, written.split("\n"))))


def undisguised(line: str) -> str:
    """Return a line of JSON with what cannot be seen escaped, and all but ASCII where letters imitate others."""
    from stream_guard.judge.patterns import see_through

    if line.isascii() and line.isprintable():
        return line
    escapes_all = see_through(line) != unicodedata.normalize("NFKC", line)
    return "".join(
        char if char.isprintable() and (char.isascii() or not escapes_all) else json.dumps(char)[1:-1] for char in line
    )


def plain(value: Any, name: str = "") -> str:
    """Return a value as one line without control characters."""
    if isinstance(value, float) and name in {"opened", "expires", "time", "decided", "begun"}:
        return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(value))
    text = ", ".join(map(str, value)) if isinstance(value, tuple | list) else str("-" if value is None else value)
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)


# Ids on a command line: found by a beginning that only one of them has.


LEAST: Final = 4  # characters that somebody has to write of an id


def find_name(name: str, known: Iterable[str], what: str) -> str | None:
    """Return the one id that a name is or begins; None where there is none. Several are a SettingsError."""
    candidates = set(known)
    if name in candidates:
        return name
    if len(name) < LEAST:
        return None
    found = sorted(candidate for candidate in candidates if candidate.startswith(name))
    if len(found) > 1:
        shown = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
        raise SettingsError(f"{name} begins {len(found)} {what}: {shown}; write more of it")
    return found[0] if found else None


# Times as people write them: a date, a date with a time, seconds since 1970, or how long ago.


def parse_time(flag: str, text: str) -> float:
    """Return a time as seconds since 1970; SettingsError names the flag when the text is not a time."""
    if re.fullmatch(r"\d{1,12}(\.\d+)?", text):
        return float(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            f"{flag} {text[:40]} is not a time; write 2026-01-31, or 2026-01-31T12:00:00Z (UTC where no zone is "
            "given), or seconds since 1970"
        ) from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def parse_since(flag: str, text: str, now: float) -> float:
    """Return a time, or how long ago (30m, 2h, 7d), as seconds since 1970."""
    if not re.fullmatch(r"[\d.]+ ?(ms|s|m|h|d)", text):
        return parse_time(flag, text)
    from stream_guard.judge.limits import parse_duration

    try:
        return now - parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"{flag} {error}") from None
