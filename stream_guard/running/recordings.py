"""Recordings as events: what files, folders and topics hold, read to the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.decoding.places import RecordPlaces
from stream_guard.decoding.reader import EventReader
from stream_guard.errors import SourceError
from stream_guard.judge.model import Event
from stream_guard.judge.ports import DecoderMemory
from stream_guard.ports import Decoder, Record
from stream_guard.settings import Settings
from stream_guard.sources import open_source
from stream_guard.storage.stores import MemoryStore


class RecordedEvents:
    """The events of recordings, decoded while they are iterated, once.

    A record that cannot be read becomes a dead letter. Where dead letters are only counted and nobody is going to look
    at the count (``strict``), the iteration ends with SourceError.
    """

    def __init__(
        self,
        sources: Sequence[str],
        decoder: Decoder,
        settings: Settings,
        dead_letters: DeadLetters,
        *,
        lateness: float = 0.0,
        strict: bool = False,
        places: RecordPlaces | None = None,
    ) -> None:
        self.dead_letters = dead_letters
        self.lateness = lateness  # seconds that events of the format may come late
        self.records = 0
        self._sources = sources
        self._settings = settings
        origins = None if places is None else places.tell
        self._reader = EventReader(decoder, dead_letters, DecoderMemory(MemoryStore(), origins=origins))
        self._places = places
        self._strict = strict
        self._is_read = False

    def __iter__(self) -> Iterator[Event]:
        # A second pass would count dead letters twice, and a decoder that waits has given its events already.
        if self._is_read:
            raise SourceError(f"the events of {', '.join(self._sources)} were read before; read the recording anew")
        self._is_read = True
        for record in self._records():
            yield from self._noted(self._reader.read(record), record)
        yield from self._noted(self._reader.finish(), None)
        letters = self.dead_letters
        letters.flush()
        if self._strict and letters.total and not letters.is_kept:
            raise SourceError(f"{letters.total} records could not be read: {'; '.join(letters.summary())}")

    def advice(self) -> Sequence[str]:
        """Return what can be done about inputs that could not be read, once they were iterated."""
        return self._reader.advice()

    def _noted(self, events: Sequence[Event], record: Record | None) -> Iterator[Event]:
        if self._places is None:
            yield from events
            return
        for event in events:
            self._places.note(record, event)
            yield event
        self._places.forget_told()

    def _records(self) -> Iterator[Record]:
        for target in self._sources:
            with closing(open_source(target, limits=self._settings.decode, kafka=self._settings.kafka)) as source:
                for record in source:
                    if record is not None:
                        self.records += 1
                        yield record
