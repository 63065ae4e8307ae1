"""The format ``auto``: detects the format of a file by the shape of its records."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final, Self

from stream_guard import (
    DecodeError,
    Decoder,
    Event,
    Json,
    JsonDecoder,
    Memory,
    Record,
    SettingsError,
    ToolCall,
    Turn,
    parts_of,
)
from stream_guard_formats.builtin import BUILT_IN, LINES_OF_SESSIONS
from stream_guard_formats.conversions import UnknownInputs
from stream_guard_formats.detection import FormatDetector
from stream_guard_formats.reading import SkippedLines

_LEAST_CONFIDENCE: Final = 0.5
_CERTAIN: Final = 0.9  # a line of a session file that is certainly of another format is read as that
_NATIVE: Final = "native"
_MAX_INPUTS: Final = 1000  # inputs that are summed up; the oldest is dropped
_LISTED: Final = 5  # inputs that are logged one by one; a folder may have thousands

_logger = logging.getLogger(__name__)


class _InputSummary:
    """What was read of one input: the formats, whether any record called a tool, and whose session file it is."""

    __slots__ = ("calls", "events", "formats", "lines_of", "records")

    def __init__(self) -> None:
        self.formats: dict[str, float] = {}
        self.records = 0
        self.calls = False
        self.events = False
        self.lines_of = ""


class AutoDecoder(JsonDecoder):
    """Detects the format of each record by its shape. One file may hold several formats.

    A session file of a coding agent is of one format: lines of it that nobody knows are skipped, counted and logged.
    The first record of each format in each input is logged, with the confidence. At the end, inputs without any tool
    call are logged too. Native records cost no more than with the format ``native``; others are parsed twice.
    """

    @property
    def waits(self) -> bool:
        """Whether it may hold events back: some formats do."""
        return True

    def __init__(self, *, strict_keys: bool = True, decoders: Mapping[str, Decoder] | None = None) -> None:
        super().__init__(strict_keys=strict_keys)
        self._decoders: Mapping[str, Decoder] = decoders or {
            name: decoder(strict_keys=strict_keys) for name, decoder in BUILT_IN.items()
        }
        self._formats = FormatDetector({name: type(decoder) for name, decoder in self._decoders.items()})
        self._native = self._decoders[_NATIVE].decode
        self._glance = self._decoders[_NATIVE].session_at_glance
        self._inputs: dict[str, _InputSummary] = {}
        self._skipped = SkippedLines()
        self._unknown = UnknownInputs()
        self._read_as: Counter[str] = Counter()  # inputs of each format
        self.detected: dict[str, float] = {}
        """The formats of the records so far, each with the greatest confidence that a record gave."""
        self._is_native: set[str] = set()  # inputs whose last record was native
        self._is_known: set[str] = set()  # those of them in which a tool was called: there is nothing more to learn

    @classmethod
    def configure(cls, settings: Any) -> Self:
        """Return a decoder of the formats of this pack."""
        return cls.configure_among(settings, BUILT_IN)

    @classmethod
    def configure_among(cls, settings: Any, decoders: Mapping[str, type[Decoder]]) -> Self:
        """Return a decoder of the formats of this pack, and of those among ``decoders`` that recognise records."""
        made = {name: decoder.configure(settings) for name, decoder in BUILT_IN.items()}
        for name, decoder in sorted(decoders.items()):
            if name not in made and _can_recognise(decoder):
                try:
                    made[name] = decoder.configure(settings)
                except SettingsError as error:
                    _logger.warning("auto reads no records of the format %s: %s", name, error)
        return cls(strict_keys=settings.decode.strict_keys, decoders=made)

    def remember(self, memory: Memory) -> Self:
        """Return a copy that lets spans and answers wait, and keeps them in ``memory``."""
        holding = copy(self)
        holding._decoders = {  # noqa: SLF001  # of its own class
            # Spans of exports were kept at the top before other formats could wait.
            name: decoder.remember(_MemoryWithoutParts(memory) if name == "otlp-json" else memory.part(name))
            for name, decoder in self._decoders.items()
        }
        return holding

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Advance the clock by seconds in which no record came. Return the events whose wait is over."""
        return [event for decoder in self._decoders.values() for event in decoder.elapse(seconds)]

    def finish(self) -> Sequence[Event]:
        """Return the events of all that waits, and log the inputs without tool calls. No further record will come."""
        events = [event for decoder in self._decoders.values() for event in decoder.finish()]
        for name, inputs in self._read_as.items():
            if name != _NATIVE and inputs > _LISTED:
                _logger.warning("%d more inputs read as %s", inputs - _LISTED, name)
        self._read_as.clear()
        silent = [] if any(map(_calls_tools, events)) else self._without_calls(told_late=bool(events))
        for origin, read in silent[:_LISTED]:
            _logger.warning(
                "%s: no tool call in any of %d records, read as %s; rules about tools had nothing to judge",
                origin or "input",
                read.records,
                ", ".join(read.formats),
            )
        if len(silent) > _LISTED:
            _logger.warning("%d more inputs have no tool call", len(silent) - _LISTED)
        self._unknown.drop(origin for origin, read in self._inputs.items() if read.formats)
        self._unknown.log()
        self._inputs.clear()
        self._skipped.log()
        return events

    def _without_calls(self, *, told_late: bool) -> list[tuple[str, _InputSummary]]:
        """Return the inputs without a tool call; those without any event stand beside others, and say nothing."""
        told_late = told_late or len(self._inputs) == 1
        return [
            (origin, read)
            for origin, read in self._inputs.items()
            if read.records and not read.calls and (read.events or told_late)
        ]

    def advice(self) -> Sequence[str]:
        """Return a program for each input of no known format that makes native events of it."""
        return self._unknown.programs()

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the events that the decoder of the detected format finds, or raise DecodeError."""
        origin = record.origin
        if origin in self._is_native:
            try:
                events = self._native(record)
            except DecodeError:
                pass  # perhaps another format; its decoder gives the reason
            else:
                return events if origin in self._is_known else self._note(record, events)
        if any(name == "ce_specversion" for name, _ in record.headers):
            return self._decode_as("cloudevents", 1.0, record)
        return super().decode(record)

    def session_at_glance(self, record: Record) -> bytes | None:
        """Return the session of a native record of an input about which nothing is left to learn.

        Such a record is native by its kind and its session, and decoding it changes nothing here; any other may.
        """
        origin = record.origin
        if origin not in self._is_known or origin not in self._is_native:
            return None
        return self._glance(record)

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether the list is one record: the formats decide."""
        return bool(items)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Detect the format of the record. Return the events that its decoder finds, or raise DecodeError."""
        lines_of = self._inputs[record.origin].lines_of if record.origin in self._inputs else ""
        if lines_of and (confidence := self._formats.ask(lines_of, data)) >= _LEAST_CONFIDENCE:
            return self._decode_as(lines_of, confidence, record)
        name, confidence = self._formats.detect(data)
        if confidence >= (_CERTAIN if lines_of else _LEAST_CONFIDENCE):
            return self._decode_as(name, confidence, record)
        if lines_of and isinstance(data, dict):
            self._skipped.add(record, str(data.get("type", data.get("kind", "without a type"))))
            return []
        if isinstance(data, list) and data:
            try:
                return [event for item, part in parts_of(data, record) for event in self.read(item, part)]
            except DecodeError:
                self._unknown.add(data, record)  # its first item may say little
                raise
        self._unknown.add(data, record)
        raise DecodeError(
            f"no format is known by this shape; name one of {', '.join(sorted(self._decoders))} with --from-format"
        )

    def _decode_as(self, name: str, confidence: float, record: Record) -> Sequence[Event]:
        events = self._decoders[name].decode(record)
        read = self._input(record.origin)
        self.detected[name] = max(confidence, self.detected.get(name, 0.0))
        if name not in read.formats:
            read.formats[name] = confidence
            if name in LINES_OF_SESSIONS and record.line:
                read.lines_of = name
            self._read_as[name] += 1
            is_news = name != _NATIVE and self._read_as[name] <= _LISTED  # what everybody expects is no news
            level = logging.WARNING if is_news else logging.INFO
            _logger.log(level, "%s: read as %s (confidence %.2f)", record.origin or "input", name, confidence)
        if name == _NATIVE:
            self._is_native.add(record.origin)
        else:
            self._is_native.discard(record.origin)
        return self._note(record, events)

    def _input(self, origin: str) -> _InputSummary:
        read = self._inputs.get(origin)
        if read is None:
            if len(self._inputs) >= _MAX_INPUTS:
                oldest = next(iter(self._inputs))
                del self._inputs[oldest]
                self._is_native.discard(oldest)
                self._is_known.discard(oldest)
            read = self._inputs[origin] = _InputSummary()
        return read

    def _note(self, record: Record, events: Sequence[Event]) -> Sequence[Event]:
        read = self._input(record.origin)
        read.records += 1
        read.events = read.events or bool(events)
        if not read.calls:
            read.calls = any(map(_calls_tools, events))
        if read.calls:
            self._is_known.add(record.origin)
        return events


class _MemoryWithoutParts:
    """A memory without the rows of its parts."""

    def __init__(self, memory: Memory) -> None:
        self.get, self.put, self.drop, self.part = memory.get, memory.put, memory.drop, memory.part
        self.count_orphans, self.note_origin = memory.count_orphans, memory.note_origin
        self._memory = memory

    def rows(self) -> Iterator[str]:
        """Yield the names of the rows that belong to no part."""
        return (name for name in self._memory.rows() if "\0" not in name)


def _can_recognise(decoder: type[Decoder]) -> bool:
    """Whether a decoder says of itself which records are of its format."""
    return any("recognises" in vars(base) for base in decoder.__mro__ if base is not Decoder)


def _calls_tools(event: Event) -> bool:
    if isinstance(event, ToolCall):
        return True
    content = event.response.get("content") if isinstance(event, Turn) else None
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, dict) and block.get("type") == "tool_use" for block in blocks)
