"""From records to events: every record becomes events or a dead letter, and this is the only place where it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from stream_guard.decoding.long_names import MAX_NAME, check_names
from stream_guard.decoding.lost_calls import lost_call
from stream_guard.decoding.redriven import letter_of, named_after
from stream_guard.errors import DecodeError
from stream_guard.judge.memory import DecoderMemory
from stream_guard.judge.model import RESERVED, Event, check_session_id
from stream_guard.ports import Decoder, Memory, Record
from stream_guard.storage.stores import MemoryStore


class DeadLetterSink(Protocol):
    """Takes the records that cannot become events."""

    def add(self, record: Record, reason: str) -> None:
        """Keep the record, or its head, with the reason and its place."""


def with_memory(decoder: Decoder, memory: Memory | None = None) -> Decoder:
    """Return the decoder; one that waits for records which name its sessions gets memory for what waits."""
    if not decoder.waits:
        return decoder
    return decoder.remember(memory if memory is not None else DecoderMemory(MemoryStore()))


class EventReader:
    """Decodes records. A record that cannot be decoded becomes a dead letter with the reason.

    ``memory`` is for events that wait for the record which names their session.
    """

    def __init__(self, decoder: Decoder, dead_letters: DeadLetterSink, memory: Memory | None = None) -> None:
        self._decoder = with_memory(decoder, memory)
        self._dead_letters = dead_letters

    def read(self, record: Record) -> list[Event]:
        """Return the record's events. Of a dead letter that is only a tool call that it tells of, if it does.

        Events of a letter that came back have ids, by which they are redeliveries when it comes back once more.
        """
        letter = letter_of(record) if record.headers else ""
        try:
            decoded = self._decoder.decode(record)
            events: list[Event] = decoded if type(decoded) is list else list(decoded)
            is_long = len(record.value) > MAX_NAME  # in a shorter record no name is too long
            for event in events:
                if is_long:
                    check_names(event)
                session_id: str = event.session_id
                if not session_id or session_id[0] == RESERVED:
                    check_session_id(session_id)
        except DecodeError as error:
            self._dead_letters.add(record, str(error))
            lost = None if letter else lost_call(record, str(error))  # of a letter that came back, rules were told
            return [] if lost is None or not self._decoder.keeps(lost) else [lost]
        return named_after(letter, events) if letter else events

    def read_all(self, records: Iterable[Record | None]) -> Iterator[Event]:
        """Yield the events of many records. Events that wait for a later record come from ``finish``."""
        for record in records:
            if record is not None:
                yield from self.read(record)

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the events that have waited long enough after so many seconds without a record."""
        return self._decoder.elapse(seconds)

    def finish(self) -> Sequence[Event]:
        """Return every event that still waits: no record will follow."""
        return self._decoder.finish()

    def advice(self) -> Sequence[str]:
        """Return what can be done about inputs that could not be read."""
        return self._decoder.advice()
