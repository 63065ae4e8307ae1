"""``convert``: recordings of any format as native JSON lines."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import typer

from stream_guard.commands import INCONCLUSIVE, SettingsFile, SourceFormat
from stream_guard.errors import SettingsError
from stream_guard.judge.model import Event


def convert(
    traces: Annotated[
        list[str], typer.Argument(help="Files, folders or kafka:// topics of recordings, or - for standard input.")
    ],
    source_format: SourceFormat = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write, instead of printing.")
    ] = None,
    dead_letters: Annotated[
        Path | None, typer.Option("--dead-letters", help="A file for records that could not be read.")
    ] = None,
    settings_file: SettingsFile = None,
) -> None:
    """Write recordings as native events, or a program that does for another format; exit 4 for unreadable records."""
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings

    count = 0
    with Assembly(load_settings(settings_file)) as assembly:
        recording = assembly.read_events(traces, source_format, dead_letters=dead_letters, tenants=False)
        out = _open(output, assembly.opened)
        for event in recording:
            count += 1
            out.write(native_line(event))
    unread = recording.dead_letters.total
    for advice in recording.advice():
        typer.echo(advice, err=True)
    typer.echo(f"{recording.records} records, {count} events, {unread} could not be read", err=True)
    if unread:
        raise typer.Exit(INCONCLUSIVE)


def native_line(event: Event) -> bytes:
    """Return the event as a line of the native format, without the fields that say nothing."""
    plain: dict[str, Any] = msgspec.to_builtins(event)
    kept = {"kind": plain["kind"]}
    for field in msgspec.structs.fields(event):
        value = plain[field.name]
        silent = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if value != silent and not (silent == () and value == []):
            kept[field.name] = value
    return msgspec.json.encode(kept) + b"\n"


def _open(output: Path | None, opened: ExitStack) -> BinaryIO:
    if output is None:
        return sys.stdout.buffer
    try:
        return opened.enter_context(output.open("wb"))
    except OSError as error:
        raise SettingsError(f"{output}: cannot be written: {error.strerror}; give another --output") from error
