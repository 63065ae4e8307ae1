"""Recordings as events: what a source holds, read to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stream_guard.errors import DecodeError
from stream_guard.model import Event
from stream_guard.ports import Decoder, HoldingDecoder, Record
from stream_guard.sessions.memory import DecoderMemory
from stream_guard.storage.stores import MemoryStore


def holding(decoder: Decoder) -> Decoder:
    """Return the decoder, with a memory of its own if it holds events back until it knows their session."""
    return decoder.remember(DecoderMemory(MemoryStore())) if isinstance(decoder, HoldingDecoder) else decoder


def decode_records(
    records: Iterable[Record | None], decoder: Decoder, bury: Callable[[Record, str], None]
) -> Iterator[Event]:
    """Yield the events of a source's records; a record that cannot be read is handed to ``bury`` with the reason.

    The decoder should be ``holding``. What it holds back at the end comes from ``decode_rest``, because the next
    source may say whose it is.
    """
    for record in records:
        if record is None:
            continue
        try:
            yield from decoder.decode(record)
        except DecodeError as error:
            bury(record, str(error))


def decode_rest(decoder: Decoder) -> Iterator[Event]:
    """Yield what a decoder holds back when all sources are at their end."""
    if isinstance(decoder, HoldingDecoder):
        yield from decoder.finish()
