"""Topics of different formats in one run: each record is read in the format of its topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stream_guard.model import Event
from stream_guard.ports import Decoder, HoldingDecoder, Memory, Record


class TopicDecoder:
    """Reads records of some topics in formats of their own, and all others in the usual one.

    There is one decoder for each format: spans on one topic and their log records on another belong together.
    """

    def __init__(self, usual: str, decoders: Mapping[str, Decoder], formats: Mapping[str, str]) -> None:
        self._usual = usual
        self._decoders = decoders
        self._formats = formats

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the record's events, or raise DecodeError."""
        topic = record.origin.rpartition("/")[0]  # the origin is topic/partition
        return self._decoders[self._formats.get(topic, self._usual)].decode(record)

    def remember(self, memory: Memory) -> TopicDecoder:
        """Return a decoder like this one whose decoders hold back, each in a memory of its own."""
        decoders = {
            name: decoder.remember(memory.part(name)) if isinstance(decoder, HoldingDecoder) else decoder
            for name, decoder in self._decoders.items()
        }
        return TopicDecoder(self._usual, decoders, self._formats)

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return what has waited long enough, whatever the topic."""
        return [event for decoder in self._holding() for event in decoder.elapse(seconds)]

    def finish(self) -> Sequence[Event]:
        """Return all that is held back, whatever the topic."""
        return [event for decoder in self._holding() for event in decoder.finish()]

    def _holding(self) -> list[HoldingDecoder]:
        return [one for one in self._decoders.values() if isinstance(one, HoldingDecoder)]
