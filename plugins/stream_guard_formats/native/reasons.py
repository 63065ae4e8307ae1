"""Reasons why a JSON object is not a native event, in words for the person who fixes the producer."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final, get_args, get_type_hints

from stream_guard import EVENT_KINDS, DecodeError, Event, Json
from stream_guard_formats.detection import FormatDetector
from stream_guard_formats.reading import name_of

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
