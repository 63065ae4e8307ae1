"""The base of decoders whose records are JSON: parsing, and the reason why a record cannot be parsed."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Final

import msgspec

from stream_guard.errors import DecodeError
from stream_guard.judge.arguments import MAX_NESTING, mend_text, parse_json
from stream_guard.judge.model import Event, Json
from stream_guard.ports import Decoder, Record

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_AT: Final = re.compile(r" at line (\d+) column (\d+)$")
# What the strict parser says (as it begins), and what it means for the producer.
_SYNTAX: Final = (
    ("Detected duplicate key", "{message}; readers differ on which value counts, so neither is used: send it once"),
    ("recursion limit", "objects and arrays are nested deeper than 200 levels; send less of them, or as a string"),
    ("EOF while parsing", "the JSON ends too early; a record must hold one whole event"),
    ("trailing characters", "something follows the event; a record must hold one event and nothing else"),
    ("lone leading surrogate", "half of a surrogate pair stands alone; the producer cut a character in two"),
    ("unexpected end of hex escape", "half of a surrogate pair stands alone; the producer cut a character in two"),
    ("invalid unicode code point", "the bytes are not UTF-8; encode the record as UTF-8"),
    ("control character", "a control character stands unescaped in a string; write it as \\u00XX"),
)


class JsonDecoder(Decoder):
    """The base of a decoder whose records are JSON values. A subclass writes ``read``.

    A record that is a list holds many records, unless ``reads_list`` says that the list itself is one.
    """

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self.strict_keys = strict_keys

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the events that ``read`` finds in the record's value; an empty line has none."""
        data = read_json(record, strict_keys=self.strict_keys)
        if type(data) is list and data and not self.reads_list(data):
            return [event for item, part in parts_of(data, record) for event in self.read(item, part)]
        return [] if data is None else self.read(data, record)

    def reads_list(self, items: Sequence[Json]) -> bool:
        """Whether a list is one record of the format; False unless a decoder knows better."""
        del items
        return False

    @abstractmethod
    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of a parsed record in order, or raise DecodeError. ``data`` is never None."""


def parts_of(items: Sequence[Json], record: Record) -> Iterator[tuple[Json, Record]]:
    """Yield the items of a record that is a list, each with a record of its own; none of them may be null."""
    for number, item in enumerate(items):
        if item is None:
            raise DecodeError(f"item {number} of the list is null; each must hold something that happened")
        yield item, msgspec.structs.replace(record, value=_encode(item), position=record.position + number)


_encode = msgspec.json.Encoder().encode


def read_json(record: Record, *, strict_keys: bool) -> Json:
    """Return the record's value, None for an empty line, or raise DecodeError with the reason."""
    if record.truncated:
        record.check_whole()
    try:
        found = parse_json(record.value, strict_keys=strict_keys)
    except (ValueError, RecursionError):
        value = record.value.removeprefix(_BYTE_ORDER_MARK)
        if not value.strip():
            return None
        found = _look_closer(value, strict_keys=strict_keys)
    if found is None:
        raise DecodeError("the record is null; a record must hold something that happened")
    return found


def _look_closer(value: bytes, *, strict_keys: bool) -> Json:
    """Return a value that the quick path refused, or raise DecodeError with the reason."""
    try:
        return parse_json(value, strict_keys=strict_keys)
    except (ValueError, RecursionError) as error:
        try:
            return read_odd_json(value)
        except (ValueError, RecursionError):
            raise DecodeError(_say_syntax(value, error)) from None


def _say_syntax(value: bytes, error: Exception) -> str:
    """Return the reason for bytes that are not JSON, or not JSON anyone should rely on."""
    if isinstance(error, RecursionError):
        return dict(_SYNTAX)["recursion limit"]
    message = str(error)
    place = _AT.search(message)
    message = message[: place.start()] if place else message
    where = _where(value, int(place[1]), int(place[2])) if place else ""
    if re.search(rb"[\[:,\s]-?(NaN|Infinity|inf)", value) and message.startswith(("expected value", "invalid number")):
        return f"NaN and Infinity are not JSON{where}; send null, or leave the field out"
    if "out of range" in message:
        return f"a number is too large for a reader to hold{where}; send it as a string"
    for start, reason in _SYNTAX:
        if message.startswith(start):
            return reason.format(message=excerpt(message[0].lower() + message[1:], 120)) + where
    return f"not JSON: {excerpt(message, 120)}{where}; the record starts with {excerpt(repr(value[:40]), 60)}"


def _where(value: bytes, line: int, column: int) -> str:
    return f" (near byte {column} of {len(value)})" if line == 1 else f" (near line {line} of the record)"


def excerpt(text: str, size: int) -> str:
    """Return the start of a producer's text, safe to print on a terminal."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:size])
    return shown if len(text) <= size else shown[: size - 1] + "…"


# JSON that strict readers refuse and executors take, read so that what a tool does with it can be judged.
#
# NaN, Infinity and numbers that no double holds are read as Python reads them, half a surrogate pair is replaced, and
# an object that gives a key twice is kept as its text. Odd numbers and such objects are read only inside what a tool
# gets or returns: elsewhere in a record they are refused, because nothing but the monitor reads them.


# Fields that hold what a tool gets or returns, in all formats.
_OF_TOOLS: Final = frozenset(("args", "arguments", "input", "output", "result"))


class _Twice(str):
    """The text of an object that gives a key twice, or has such an object in it."""

    __slots__ = ()


def read_odd_json(value: bytes) -> Json:
    """Return the value; ValueError or RecursionError when it is not JSON, or odd where nothing may be."""
    found = json.loads(value.decode(), object_pairs_hook=_take_object, parse_int=_take_integer)
    if isinstance(found, _Twice) or _has_twice(found):
        raise ValueError("a key is given twice outside of the arguments of a call")
    _check(found)
    return mend_text(found)


def _take_object(pairs: list[tuple[str, Json]]) -> Json:
    found: dict[str, Json] = {}
    whole = True
    for key, value in pairs:
        whole = whole and key not in found
        if _has_twice(value):
            if key not in _OF_TOOLS:
                whole = False
            else:
                found[key] = _text(value)
                continue
        found[key] = value
    if whole:
        return found
    return _Twice("{" + ", ".join(f"{json.dumps(key)}: {_text(value)}" for key, value in pairs) + "}")


def _take_integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 20 else float(digits)


def _has_twice(value: Json) -> bool:
    return isinstance(value, _Twice) or (isinstance(value, list) and any(map(_has_twice, value)))


def _text(value: Json) -> str:
    """Return a value as JSON text, with objects that give a key twice as they were."""
    if isinstance(value, _Twice):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return json.dumps(value)


def _check_ids(found: dict[str, Json]) -> None:
    """Raise ValueError for half a surrogate pair in an id: replaced, two ids could become one."""
    for key, value in found.items():
        if isinstance(value, str) and key.endswith(("id", "Id")) and value != mend_text(value):
            raise ValueError("half of a surrogate pair stands alone in an id")


def _check(found: Json) -> None:
    """Raise ValueError for what is nested too deep, and for odd numbers outside what a tool gets or returns."""
    layer = [(found, False)]
    for _ in range(MAX_NESTING + 1):
        inner: list[tuple[Json, bool]] = []
        for value, of_tool in layer:
            if isinstance(value, dict):
                _check_ids(value)
                inner += [(item, of_tool or key in _OF_TOOLS) for key, item in value.items()]
            elif isinstance(value, list):
                inner += [(item, of_tool) for item in value]
            elif isinstance(value, float) and not isfinite(value) and not of_tool:
                raise ValueError("a number is too large, or none, outside of what a tool gets or returns")
        if not inner:
            return
        layer = inner
    raise ValueError("objects and arrays are nested too deep")
