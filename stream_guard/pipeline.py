"""READ FIRST: the way of an event through the system, on one page.

    source -> decode -> sessions -> engine (rules) -> alerts -> sinks

A record comes from a source and becomes events, or a dead letter. Each event goes to its session, which
drops duplicates, pairs, splits and keeps time, and shows it to the engine; the engine folds it into the
rules' states and returns findings. ``embedded`` (and later the Kafka worker) reads, sends and commits
around this; ``batch`` and ``inline`` hold events already and enter at the session table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from stream_guard.errors import DecodeError
from stream_guard.model import Finding
from stream_guard.observability.counts import Counts
from stream_guard.ports import Decoder, HoldingDecoder, Record
from stream_guard.sessions.table import SessionTable


class Undertaker(Protocol):
    """Takes the records that could not become events."""

    def bury(self, record: Record, reason: str) -> None:
        """Keep the record, or as much of it as is sensible, with the reason and its place."""


class Pipeline:
    """One partition's worth of work: records in, findings out, nothing lost silently."""

    def __init__(self, decoder: Decoder, table: SessionTable, undertaker: Undertaker, counts: Counts) -> None:
        self._decoder = decoder.remember(table.memory) if isinstance(decoder, HoldingDecoder) else decoder
        self._decode = self._decoder.decode
        self._feed = table.feed
        self._undertaker = undertaker
        self._counts = counts

    def run(self, records: Iterable[Record], out: list[Finding]) -> None:
        """Judge a batch of records; findings are appended in the order in which they were made."""
        decode, feed = self._decode, self._feed
        count = 0
        for record in records:
            count += 1
            try:
                for event in decode(record):
                    feed(event, out)
            except DecodeError as error:
                self._undertaker.bury(record, str(error))
        self._counts.records += count

    def finish(self, out: list[Finding]) -> None:
        """Judge what the decoder holds back: nothing more will come. Whoever calls this ends the sessions next."""
        if isinstance(self._decoder, HoldingDecoder):
            for event in self._decoder.finish():
                self._feed(event, out)
