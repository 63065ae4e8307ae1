"""The format ``auto``: detects the format of a file by the shape of its records."""

from __future__ import annotations

import logging
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from stream_guard_formats.detection import FormatDetector
from stream_guard_formats.reading import SkippedLines, excerpt
from stream_guard_formats.unknown_shapes import Path, StepPlaces, describe, find_reading

# A program that makes native events of a recording of no known format, with the names of its fields filled in.


_MOST_INPUTS: Final = 100
_MOST_BYTES: Final = 4 << 20  # of an input, that are looked at
_MOST_RECORDS: Final = 50


_HEAD: Final = """\
import gzip, json, sys
from datetime import datetime

def get(value, *path):
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value

def seconds(value):
    try:
        value = datetime.fromisoformat(value).timestamp() if isinstance(value, str) else float(value)
        return value / 1000 if value > 1e11 else value
    except (TypeError, ValueError, OverflowError):
        return None

def tell(kind, step, **fields):
    fields = {"kind": kind, "session_id": session, "time": seconds({time}), **fields}
    print(json.dumps({name: value for name, value in fields.items() if value is not None}))

text = (gzip.open if sys.argv[1].endswith(".gz") else open)(sys.argv[1], "rt", encoding="utf-8").read()
try:
    runs = json.loads(text)
except ValueError:
    runs = [json.loads(line) for line in text.splitlines() if line.strip()]
runs = [run for run in (runs if isinstance(runs, list) else [runs]) if isinstance(run, dict)]
waiting = []
for number, run in enumerate(runs):
    session = str({session})
    for place, step in enumerate({steps}):
"""
_CALLS: Final = """\
        for at, call in enumerate({calls}):
            if isinstance({tool}, str) and {tool}:
                args, waiting = {args}, [*waiting, f"{{number}}.{{place}}.{{at}}"]
                args = json.loads(args) if isinstance(args, str) and args[:1] == "{{" else args
                tell("tool_call", step, tool={tool}, call_id=waiting[-1], args=args)
"""
_OWN_RESULT: Final = """\
                if {result} is not None:
                    status = "error" if {failed} else "ok"
                    tell("tool_result", step, call_id=waiting.pop(), output={result}, status=status)
"""
_LATER_RESULT: Final = """\
        if {is_result}:
            call, status = step, "error" if {step_failed} else "ok"
            tell("tool_result", step, call_id=waiting.pop(0) if waiting else "", output={later}, status=status)
            continue
"""
_TEXTS: Final = """\
        if isinstance({text}, str) and {text}:
            if {role} in {persons}:
                tell("user_message", step, text={text})
            else:
                tell("turn", step, response={{"content": [{{"type": "text", "text": {text}}}]}})
"""


class UnknownInputs:
    """The first records of inputs of which no format is known."""

    def __init__(self) -> None:
        self._inputs: dict[str, list[Json]] = {}
        self._sizes: dict[str, int] = {}

    def add(self, data: Json, record: Record) -> None:
        """Keep a record that no format reads, if it is one of the first of its input."""
        origin = record.origin
        kept, size = self._inputs.get(origin, []), self._sizes.get(origin, 0) + len(record.value)
        if (
            len(kept) < _MOST_RECORDS
            and (not kept or size <= _MOST_BYTES)
            and (kept or len(self._inputs) < _MOST_INPUTS)
        ):
            self._inputs.setdefault(origin, []).append(data)
            self._sizes[origin] = size

    def drop(self, origins: Iterable[str]) -> None:
        """Forget inputs of which a format is known after all; single records of them are dead letters."""
        for origin in origins:
            self._inputs.pop(origin, None)

    def log(self) -> None:
        """Log what each input looks like."""
        for origin, records in self._inputs.items():
            advice = "stream-guard convert prints a program that converts it"
            _logger.warning(
                "%s: no format is known by its shape, %s; %s",
                origin or "input",
                describe(records),
                advice if find_reading(records) else "it has nothing that looks like a tool call or a text",
            )

    def programs(self) -> Sequence[str]:
        """Return, for each input whose steps can be told, how to convert it."""
        found: list[str] = []
        for origin, records in self._inputs.items():
            if (reading := find_reading(records)) is not None:
                file = shlex.quote(origin) if origin.isprintable() and origin else "FILE"
                head = f"{excerpt(origin)} looks like this: {describe(records)}."
                todo = f"Save what follows as to_events.py, and run: python to_events.py {file} > events.jsonl"
                found.append(f"{head}\n{todo}\n\n{write_conversion(reading)}")
        return found


def write_conversion(reading: StepPlaces) -> str:
    """Return the program. Names from the file stand in it as literals, so none of them can be code."""
    places = reading.places
    in_step = {name: _get("step", place) for name, place in places.items()}
    in_call = {name: _get("call", place) for name, place in places.items()}
    session = _get("run", places["session"]) if "session" in places else "None"
    steps = _get("run", reading.steps) + " or []" if reading.steps else "[run]"
    name = f'{session} or f"run-{{number}}"' if reading.steps else f"{session} or sys.argv[1]"
    program = _HEAD.replace("{time}", in_step.get("time", "None"))
    program = program.replace("{session}", name).replace("{steps}", steps)
    world = reading.world if "role" in places else ()
    is_inside = _has_own_result(reading)
    if "tool" in places and ("result" in places or world) and not is_inside:
        program += _later_result(in_step, world)
    if "tool" in places:
        calls = f"{_get('step', reading.calls)} or []" if reading.calls else "[step]"
        program += _CALLS.format(calls=calls, tool=in_call["tool"], args=in_call.get("args", "None"))
        if is_inside:
            program += _OWN_RESULT.format(result=in_call["result"], failed=_failed(in_call))
    if "text" in places:
        program += _TEXTS.format(text=in_step["text"], role=in_step.get("role", "None"), persons=ascii(reading.persons))
    return program


def _has_own_result(reading: StepPlaces) -> bool:
    """Whether a call and what came of it stand in one object."""
    return "result" in reading.places and not reading.world


def _later_result(in_step: dict[str, str], world: tuple[str, ...]) -> str:
    result, text = in_step.get("result", "None"), in_step.get("text", "None")
    is_result = f"{in_step['role']} in {world!a}" if world else f"{result} is not None and not {in_step['tool']}"
    later = f"{text} if {result} is None else {result}" if text != result else result
    return _LATER_RESULT.format(is_result=is_result, later=f"({later})", step_failed=_failed(in_step))


def _failed(places: dict[str, str]) -> str:
    if "worked" in places:
        return f"{places['worked']} is False"
    return places.get("failed", "False")


def _get(holder: str, path: Path) -> str:
    return f"get({holder}, {', '.join(map(ascii, path))})"


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
