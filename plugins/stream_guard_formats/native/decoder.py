"""The native format: one canonical event as one JSON object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

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
from stream_guard_formats.native.glance import session_at_glance
from stream_guard_formats.native.reasons import check_kind, check_list, explain_shape
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
