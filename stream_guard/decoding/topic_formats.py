"""Topics of different formats in one run: each record is decoded in the format of its topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stream_guard.judge.model import Event
from stream_guard.ports import Decoder, Memory, Record


class TopicDecoder(Decoder):
    """Decodes records in the format of their topic, or in the default format.

    Each format has one decoder: spans on one topic and their log records on another belong together.
    """

    def __init__(self, default: str, decoders: Mapping[str, Decoder], formats: Mapping[str, str]) -> None:
        self._default = default
        self._decoders = decoders
        self._formats = formats

    @property
    def waits(self) -> bool:
        """Whether it may hold events back: where one of the formats does."""
        return any(decoder.waits for decoder in self._decoders.values())

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the record's events, or raise DecodeError."""
        topic = record.origin.rpartition("/")[0]  # the origin is topic/partition
        return self._decoders[self._formats.get(topic, self._default)].decode(record)

    def remember(self, memory: Memory) -> TopicDecoder:
        """Return this decoder with waiting decoders, each with memory of its own."""
        decoders = {name: decoder.remember(memory.part(name)) for name, decoder in self._decoders.items()}
        return TopicDecoder(self._default, decoders, self._formats)

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return the events of all topics that have waited long enough."""
        return [event for decoder in self._decoders.values() for event in decoder.elapse(seconds)]

    def finish(self) -> Sequence[Event]:
        """Return the events of all topics that still wait."""
        return [event for decoder in self._decoders.values() for event in decoder.finish()]

    def advice(self) -> Sequence[str]:
        """Return what the decoders of all topics advise."""
        return [text for decoder in self._decoders.values() for text in decoder.advice()]
