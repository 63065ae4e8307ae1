"""Print records as a table or as JSON, with control characters escaped."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Sequence
from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stream_guard.commands import ListFormat
from stream_guard.language.lookalikes import see_through


def show(records: Sequence[msgspec.Struct], columns: Sequence[str], form: ListFormat) -> None:
    """Print records: all of each as JSON, or some columns as a table."""
    if form is ListFormat.JSON:
        typer.echo(json.dumps([msgspec.to_builtins(record) for record in records], indent=2))
        return
    table = Table(*columns)
    for record in records:
        table.add_row(*(Text(plain(getattr(record, name), name)) for name in columns))
    Console().print(table)


def show_one(record: msgspec.Struct | dict[str, Any]) -> None:
    """Print one record whole, as JSON that can be read aloud: letters of all scripts, and nothing in disguise."""
    written = json.dumps(msgspec.to_builtins(record), indent=2, ensure_ascii=False)
    typer.echo("\n".join(map(undisguised, written.split("\n"))))


def undisguised(line: str) -> str:
    """Return a line of JSON with what cannot be seen escaped, and all but ASCII where letters imitate others."""
    if line.isascii() and line.isprintable():
        return line
    escapes_all = see_through(line) != unicodedata.normalize("NFKC", line)
    return "".join(
        char if char.isprintable() and (char.isascii() or not escapes_all) else json.dumps(char)[1:-1] for char in line
    )


def plain(value: Any, name: str = "") -> str:
    """Return a value as one line without control characters."""
    if isinstance(value, float) and name in {"opened", "expires", "time", "decided"}:
        return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(value))
    text = ", ".join(map(str, value)) if isinstance(value, tuple | list) else str("-" if value is None else value)
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
