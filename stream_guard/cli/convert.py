"""``convert``: recordings of any format as native JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import typer

from stream_guard.commands import INCONCLUSIVE, SettingsFile
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.recordings import decode_records, decode_rest, holding
from stream_guard.errors import SettingsError
from stream_guard.model import Event
from stream_guard.observability.counts import Counts
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.running.assembly import make_decoder
from stream_guard.settings import Settings, load_settings
from stream_guard.sources import open_source


def convert(
    traces: Annotated[
        list[str], typer.Argument(help="Files, folders or kafka:// topics of recordings, or - for standard input.")
    ],
    source_format: Annotated[
        str, typer.Option("--from-format", help="The format of the records; auto tells it by their shape.")
    ] = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write, instead of printing.")
    ] = None,
    dead_letters: Annotated[
        Path | None, typer.Option("--dead-letters", help="A file for records that could not be read.")
    ] = None,
    settings_file: SettingsFile = None,
) -> None:
    """Write recordings as native events, one JSON object to a line; exit 4 when a record could not be read."""
    settings = load_settings(settings_file)
    decoder = holding(make_decoder(source_format, build_registry(settings.plugins), settings))
    letters = DeadLetters(dead_letters, Counts(), format_name=source_format)
    reading, events = _Reading(traces, settings), 0
    with ExitStack() as opened:
        opened.callback(letters.close)
        out = _open(output, opened)
        for event in chain(decode_records(reading, decoder, letters.add), decode_rest(decoder)):
            events += 1
            out.write(native_line(event))
    typer.echo(f"{reading.records} records, {events} events, {letters.total} could not be read", err=True)
    if letters.total:
        raise typer.Exit(INCONCLUSIVE)


class _Reading:
    """The records of all traces, one after the other, counted."""

    def __init__(self, traces: Sequence[str], settings: Settings) -> None:
        self._traces = traces
        self._settings = settings
        self.records = 0

    def __iter__(self) -> Iterator[Record]:
        for trace in self._traces:
            with closing(open_source(trace, limits=self._settings.decode, kafka=self._settings.kafka)) as source:
                for record in source:
                    if record is not None:
                        self.records += 1
                        yield record


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
