"""The native format: one canonical event as one JSON object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, get_args, get_type_hints

import msgspec
import xxhash

from stream_guard import (
    EVENT_KINDS,
    DecodeError,
    Decoder,
    Event,
    Json,
    Memory,
    Record,
    ToolCall,
    Turn,
    check_json,
    parse_arguments,
    parts_of,
    read_json,
)
from stream_guard_formats.detection import FormatDetector
from stream_guard_formats.reading import name_of
from stream_guard_formats.usage import read_usage

# Ids are remembered, per session and per event: a megabyte of id would be a megabyte of state.
MAX_ID: Final = 512
# The year 10000. Mostly it means milliseconds where seconds were wanted.
LATEST: Final = 253_402_300_800.0
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_RFC_3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
# Written by the session tracker: values on the wire, even malformed ones, are ignored.
_STAMPED: Final = ("index", "attempt")
_STAMPED_OF_A_TURN: Final = ("text", "tools")

_REFUSALS: Final = (ValueError, RecursionError)
_replace = msgspec.structs.replace
_read_event: Final[Callable[[bytes], Event]] = msgspec.json.Decoder(Event).decode  # to make one takes long


class NativeDecoder:
    """Reads the native format. An empty line has no event.

    It has the methods of a ``Decoder`` and does not derive from it: what is compiled derives from nothing interpreted.
    """

    def __init__(self, *, strict_keys: bool = True, formats: FormatDetector | None = None) -> None:
        self._decode = _read_event
        self._formats = formats  # the reason for a record of another format names that format
        self._strict = strict_keys

    @property
    def waits(self) -> bool:
        """Whether it may hold events back: every record names its session."""
        return False

    def decode(self, record: Record) -> list[Event]:
        """Return the record's event in a list of one, or raise DecodeError with the reason."""
        value = record.value
        if record.truncated:
            record.check_whole()
        try:
            if self._strict:
                check_json(value)
            event: Event = self._decode(value)
        except _REFUSALS:
            return self._look_closer(record)
        time, event_id, session_id = event.time, event.event_id, event.session_id
        if (
            event_id
            and session_id
            and len(session_id) + len(event_id) <= MAX_ID
            and (time is None or 0.0 <= time < LATEST)
        ):
            if type(event) is Turn:
                if "usage" in event.response:
                    _spell_usage(event.response)
                return [event]
            if type(event) is not ToolCall or type(event.args) is not str:
                return [event]
        return [self._complete(event, value)]

    def session_at_glance(self, record: Record) -> bytes | None:
        """Return the session of a record that begins as most do. Where keys may come twice, another one could count."""
        return session_at_glance(record) if self._strict else None

    @classmethod
    def configure(cls, settings: Any) -> NativeDecoder:
        """Return a decoder for the settings under ``decode``."""
        return cls(strict_keys=settings.decode.strict_keys)

    @classmethod
    def configure_among(cls, settings: Any, decoders: Mapping[str, type[Decoder]]) -> NativeDecoder:
        """Return a decoder that names one of the other formats where a record looks like it."""
        return cls(strict_keys=settings.decode.strict_keys, formats=FormatDetector(decoders))

    @classmethod
    def recognises(cls, data: Json) -> float:
        """Return the confidence that a record is an event, by its kind and its session."""
        return 1.0 if isinstance(data, dict) and data.get("kind") in EVENT_KINDS and "session_id" in data else 0.0

    def keeps(self, event: Event) -> bool:
        """Whether an event is one that this decoder returns."""
        del event
        return True

    def remember(self, memory: Memory) -> NativeDecoder:
        """Hold nothing back: every record names its session."""
        del memory
        return self

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return nothing: nothing waits."""
        del seconds
        return ()

    def finish(self) -> Sequence[Event]:
        """Return nothing: nothing waits."""
        return ()

    def advice(self) -> Sequence[str]:
        """Return nothing: the reason for each record says what is wrong with it."""
        return ()

    def _look_closer(self, record: Record) -> list[Event]:
        """Read a record that the quick path refused: repair it, or raise DecodeError with the reason."""
        data = read_json(record, strict_keys=self._strict)
        if data is None:
            return []
        if isinstance(data, list) and data:
            check_list(data, self._formats)
            return [event for _, part in parts_of(data, record) for event in self.decode(part)]
        check_kind(data, self._formats)
        _repair(data)
        try:
            event = msgspec.convert(data, Event)
        except _REFUSALS as error:
            raise DecodeError(explain_shape(data, error)) from None
        return [self._complete(event, record.value.removeprefix(_BYTE_ORDER_MARK))]

    def _complete(self, event: Event, value: bytes) -> Event:
        _check_id("session_id", event.session_id)
        _check_id("event_id", event.event_id or "~")
        if event.time is not None and not 0.0 <= event.time < LATEST:
            raise DecodeError(
                f"time is {event.time!r}; it must be seconds since 1970-01-01 UTC, before the year 10000"
                + ("; divide milliseconds by 1000" if event.time >= LATEST else "")
            )
        changes: dict[str, Any] = {}
        if not event.event_id:
            # Derived from the bytes, never random: redelivery and replay must give the same id. Without the
            # space around them: the same event has a line end in a file and none in a topic.
            changes["event_id"] = f"~{xxhash.xxh3_64_hexdigest(value.strip())}"
        if isinstance(event, ToolCall) and isinstance(event.args, str) and not event.parse_error:
            changes["args"], changes["parse_error"] = parse_arguments(event.args, strict_keys=self._strict)
        if isinstance(event, Turn) and "usage" in event.response:
            _spell_usage(event.response)
        completed: Event = _replace(event, **changes)
        return completed


def _spell_usage(response: dict[str, Json]) -> None:
    """Write the usage of a response in our spelling. Usage that says nothing known is left out: that is no zero."""
    found = response["usage"]
    usage = read_usage(found)
    if usage is None:
        del response["usage"]
    elif usage is not found:
        response["usage"] = usage


def _check_id(field: str, found: str) -> None:
    if not found:
        raise DecodeError(f'"{field}" is empty; every event needs the id of its session')
    if len(found) > MAX_ID:
        raise DecodeError(f'"{field}" has {len(found)} characters; the longest allowed has {MAX_ID}')


def _repair(data: dict[str, Json]) -> None:
    """Remove the fields that the session tracker writes, and turn a time written as text into seconds."""
    stamped = _STAMPED + _STAMPED_OF_A_TURN if data["kind"] == Turn.__struct_config__.tag else _STAMPED
    for field in stamped:
        data.pop(field, None)
    time = data.get("time")
    if not isinstance(time, str):
        return
    if not _RFC_3339.fullmatch(time):
        raise DecodeError(
            f'time is the string {time[:40]!r}; write seconds since 1970, or RFC 3339 like "2026-01-31T12:00:00Z"'
        )
    try:
        data["time"] = datetime.fromisoformat(time.upper()).timestamp()
    except (ValueError, OverflowError) as error:
        raise DecodeError(f"time {time!r} is no date that exists: {error}") from None


# Reasons why a JSON object is not a native event, in words for the person who fixes the producer.


_EVENTS: Final = {event.__struct_config__.tag: event for event in get_args(Event)}
_EXPECTED: Final = re.compile(r"Expected `(.+?)`(?:, got `(.+?)`)?")
_PATH: Final = re.compile(r" - at `(?:key in )?\$\.?(.*)`$")
_MISSING: Final = re.compile(r"missing required field `(\w+)`")
_WORDS: Final = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}


def check_kind(data: Json, formats: FormatDetector | None) -> None:
    """Raise DecodeError unless the value is an object with a known ``kind``. The reason may name one of ``formats``."""
    if not isinstance(data, dict):
        advice = _other_format(data, formats)
        raise DecodeError(f"an event is a JSON object, this is {name_of(data)}; a record holds one event{advice}")
    known = f"known kinds: {', '.join(EVENT_KINDS)}"
    if "kind" not in data:
        raise DecodeError(
            f'the event has no "kind"{_other_format(data, formats) or _suggestion("kind", data)}; {known}'
        )
    kind = data["kind"]
    if not isinstance(kind, str):
        raise DecodeError(f'"kind" must be a string, this is {name_of(kind)}; {known}')
    if kind not in EVENT_KINDS:
        close = get_close_matches(kind[:40], EVENT_KINDS, 1)
        advice = f"; did you mean {close[0]!r}?" if close else _other_format(data, formats)
        raise DecodeError(f"unknown kind {_excerpt(repr(kind), 60)}{advice}; {known}")


def check_list(items: list[Json], formats: FormatDetector | None) -> None:
    """Raise DecodeError where a list is no list of native events but one record of another format."""
    if advice := _other_format(items, formats):
        raise DecodeError(f"the list is no list of native events{advice}")


def _other_format(data: Json, formats: FormatDetector | None) -> str:
    """Return which other format a record looks like, and how to have it read."""
    if formats is None:
        return ""
    name, confidence = formats.detect(data)
    if name in {"", "native"}:
        return ""
    return f"; is this another format? try --from-format auto: looks like {name} {confidence:.2f}"


def explain_shape(data: dict[str, Json], error: Exception) -> str:
    """Return the reason for an object of a known kind that is not an event."""
    message, kind = str(error), data["kind"]
    where = _path(message) or " the event"
    if missing := _MISSING.search(message):
        return f'{where.strip()} has no "{missing[1]}", which "{kind}" needs{_suggestion(missing[1], data)}'
    if expected := _EXPECTED.search(message):
        wanted = " or ".join(_WORDS.get(word, word) for word in expected[1].split(" | "))
        found = f", not {_WORDS.get(expected[2], expected[2])}" if expected[2] else ""
        return f"{where.strip()} must be {wanted}{found}"
    if message.startswith("Invalid enum value"):
        field = where.strip().strip('"')
        allowed = ", ".join(get_args(get_type_hints(_EVENTS[kind]).get(field)))
        return f'"{field}" is {_excerpt(repr(data.get(field)), 60)}; it must be one of {allowed}'
    return f"not an event of kind {kind!r}: {_excerpt(message, 200)}"


def _path(message: str) -> str:
    """`` "labels[...]"`` for a message that ends in its path, else nothing."""
    path = _PATH.search(message)
    return f' "{path[1]}"' if path and path[1] else ""


def _suggestion(field: str, data: dict[str, Json]) -> str:
    close = get_close_matches(field, [key[:80] for key in data], 1, 0.7)
    return f'; it has {_excerpt(repr(close[0]), 60)}: did you mean "{field}"?' if close else ""


def _excerpt(text: str, size: int) -> str:
    # A reason is read on terminals, and this part of it is the producer's text.
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:size])
    return shown if len(text) <= size else shown[: size - 1] + "…"


# A glance at native records: whose they are, from the fields before their session, without decoding them.


_SPACE: Final = r"[\x20\t\r\n]*+"
# The fields at the top of a record up to its session, a plain ASCII id: the kind, then values that hold no others.
_HEAD: Final = re.compile(
    rf"""\{{ {_SPACE} "kind" {_SPACE} : {_SPACE} "(?:{"|".join(EVENT_KINDS)})" {_SPACE} , {_SPACE}
    (?: (?!"session_id") "[^"\\]*+" {_SPACE} : {_SPACE}
        (?: "[^"\\]*+" | [-+0-9.eE]++ | true | false | null ) {_SPACE} , {_SPACE} )*+
    "session_id" {_SPACE} : {_SPACE} "([\x20!#-\[\]-~]++)" """.encode(),
    re.VERBOSE,
)


def session_at_glance(record: Record) -> bytes | None:
    """Return the session that all events of a record belong to; None where a glance is not enough, or with headers."""
    if record.headers:
        return None
    value = record.value
    head = _HEAD.match(value)
    if head is None:
        return None
    # A call in a record that cannot be decoded belongs to the session that is named last, wherever that is.
    find, end = value.find, head.end()
    if find(b'"session', end) >= 0 or find(b'"thread_id"', end) >= 0 or find(b'"conversation_id"', end) >= 0:
        return None
    return head[1]
