"""Print records as a table or as JSON, with control characters escaped."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import typer

from stream_guard.cli.names import shorten
from stream_guard.commands import ListFormat

if TYPE_CHECKING:
    from rich.console import Console

_TOO_WIDE: Final = 1.5  # times the width of a terminal: then a table would only be columns of letters


def show(records: Sequence[msgspec.Struct], columns: Sequence[str], form: ListFormat) -> None:
    """Print records: all of each as JSON, or some columns as a table."""
    from rich.console import Console

    if form is ListFormat.JSON:
        typer.echo(json.dumps([msgspec.to_builtins(record) for record in records], indent=2))
        return
    rows = [[plain(getattr(record, name), name) for name in columns] for record in records]
    print_table([name.replace("_", " ") for name in columns], rows, Console(highlight=False))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    """Print a table that fits the terminal. Ids are shortened where there is no room; nothing is cut.

    An id is shortened to a beginning that no other one has; every command takes it. What is still too wide is wrapped.
    """
    from rich.table import Table
    from rich.text import Text

    cells = [list(row) for row in rows]
    if _width(headings, cells) > console.width and console.is_terminal:
        for column, heading in enumerate(headings):
            if heading.split(" ")[-1] == "id":
                short = shorten([row[column] for row in cells])
                for row in cells:
                    row[column] = short[row[column]]
    if _width(headings, cells) > _TOO_WIDE * console.width and console.is_terminal:
        for row in cells:
            for heading, cell in zip(headings, row, strict=True):
                console.print(Text(f"{heading}: {cell}"), overflow="fold")
            console.print()
        return
    table = Table(box=None, pad_edge=False)
    for column, heading in enumerate(headings):
        numbers = bool(cells) and all(row[column].lstrip("-").isdigit() or row[column] == "-" for row in cells)
        table.add_column(heading, overflow="fold", justify="right" if numbers else "left")
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)


def _width(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    return sum(2 + max(map(len, column)) for column in zip(headings, *rows, strict=True))


def show_one(record: msgspec.Struct | dict[str, Any]) -> None:
    """Print one record whole, as JSON that can be read aloud: letters of all scripts, and nothing in disguise."""
    written = json.dumps(msgspec.to_builtins(record), indent=2, ensure_ascii=False)
    typer.echo("\n".join(map(undisguised, written.split("\n"))))


def undisguised(line: str) -> str:
    """Return a line of JSON with what cannot be seen escaped, and all but ASCII where letters imitate others."""
    from stream_guard.language.lookalikes import see_through

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
