"""Tool arguments that arrive as text: JSON written by a model, sometimes JSON in JSON, sometimes broken.

The reading of the executor counts. So a text is read as Python's ``json`` reads it: the last of two equal keys wins,
NaN and Infinity are numbers. Where common readers take something else from the same text, the arguments are contested.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace
from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema, to_jsonable_python

from stream_guard.judge.equality import json_equal
from stream_guard.judge.model import Json, ToolCall
from stream_guard.judge.strict_json import check_json

Type: TypeAlias = Literal["number", "flag", "null", "text"]
"""What a value may be taken as: ``text`` leaves it as it is. JSON in a text is read whatever is asked for."""

_INTEGER: Final = SchemaValidator(core_schema.int_schema())
_FLOAT: Final = SchemaValidator(core_schema.float_schema())
_FLAG: Final = SchemaValidator(core_schema.bool_schema())
_BRACKETS: Final = ("{", "[")
_BEFORE_JSON: Final = frozenset("{[ \t\n\r")  # what may stand before JSON is what JSON calls whitespace
_STARTS: Final = frozenset("+-.0123456789iInN")  # of texts that may be numbers, infinities and NaN
LONGEST_WORD: Final = 40  # characters of a text that is looked at as a flag or a null


def as_integer(value: Json) -> Json:
    """Return the integer that executors make of a value; ValueError where they make none."""
    return _INTEGER.validate_python(value)


def as_number(value: Json) -> Json:
    """Return the number that executors make of a value, an integer where possible; ValueError where there is none."""
    try:
        return _INTEGER.validate_python(value)
    except ValidationError:
        return as_float(value)


def as_float(value: Json) -> Json:
    """Return the float that executors make of a value; ValueError where they make none."""
    try:
        return _FLOAT.validate_python(value)
    except ValidationError:
        if type(value) is not str:
            raise
    return float(value)  # digits of other scripts, which Python's own types take, decimals too


def as_flag(value: Json) -> Json:
    """Return the flag that executors make of a value, such as ``yes`` or 1; ValueError where they make none."""
    return _FLAG.validate_python(value.strip() if type(value) is str else value)


def _written(schema: CoreSchema) -> Callable[[Json], Json]:
    """Return what makes of a value the object of a type, and of that the text that says it."""
    validate = SchemaValidator(schema).validate_python
    return lambda value: to_jsonable_python(validate(value))


FORMATS: Final[dict[Json, Callable[[Json], Json]]] = {
    "date": _written(core_schema.date_schema()),
    "date-time": _written(core_schema.datetime_schema()),
    "time": _written(core_schema.time_schema()),
    "duration": _written(core_schema.timedelta_schema()),
    "uuid": _written(core_schema.uuid_schema()),
    "uri": _written(core_schema.url_schema()),
    "ipv4": lambda value: str(ip_address(value)),
    "ipv6": lambda value: str(ip_address(value)),
}
"""Formats of a JSON Schema whose values executors make objects of; ValueError where they make none."""


def may_hold_json(text: str) -> bool:
    """Whether a text begins as an object or a list."""
    first = text[:1]
    return first in _BRACKETS or (first in _BEFORE_JSON and text.lstrip()[:1] in _BRACKETS)


def holds_json(value: Json) -> bool:
    """Whether an object or a list stands as JSON in a text somewhere in a value."""
    waiting = [value]
    for item in waiting:  # grows while it is walked
        if type(item) is str:
            if item[:1] in _BEFORE_JSON and json_in(item) is not None:
                return True
        elif type(item) is dict:
            waiting += item.values()
        elif type(item) is list:
            waiting += item
    return False


def may_be_number(text: str) -> bool:
    """Whether a text begins as a number does, or as one in another script may."""
    first = text[:1]
    return first in _STARTS or first.isspace() or not text.isascii()


def json_in(text: str) -> Json:
    """Return the object or the list that stands in a text as JSON; None where there is none.

    What is nested deeper than rules look is left out: an executor reads the rest all the same.
    """
    if not may_hold_json(text):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cut_deep(value) if isinstance(value, dict | list) else None


def cut_deep(value: Json) -> Json:
    """Return a value that nobody else holds; objects and lists in it that are nested too deep are emptied."""
    layer = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_NESTING - 1):
        layer = [inner for item in layer for inner in _inside(item) if isinstance(inner, dict | list)]
        if not layer:
            return value
    for item in layer:
        item.clear()
    return value


def _inside(item: Json) -> Iterator[Json]:
    yield from item.values() if isinstance(item, dict) else item


def taken_as(value: Json, wanted: Type) -> Json:
    """Return the value with everything in it taken as the wanted type where an executor may; itself if nothing is.

    The value that came in stays as it is.
    """
    if type(value) is str:
        return _text_as(value, wanted)
    if type(value) is dict:
        taken = {key: taken_as(item, wanted) for key, item in value.items()}
        return taken if any(taken[key] is not item for key, item in value.items()) else value
    if type(value) is list:
        items = [taken_as(item, wanted) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    # Not the other way: to a rule a flag is no number, and as one it is next to nothing.
    return value == 1 if wanted == "flag" and type(value) is not bool and value in (0, 1) else value


def _text_as(text: str, wanted: Type) -> Json:
    inner = json_in(text)
    if inner is not None:
        return taken_as(inner, wanted)
    if wanted == "number" and may_be_number(text):
        try:
            return as_number(text)
        except ValueError:
            return text
    if wanted == "flag" and len(text) <= LONGEST_WORD:
        try:
            return as_flag(text)
        except ValueError:
            return text
    return None if wanted == "null" and text[:LONGEST_WORD].strip() == "null" else text


def payload_texts(value: Json) -> list[str]:
    """Return every string in a JSON value and every key of its objects; each is a text of its own.

    Two strings that stand beside each other say nothing together. Only a list of strings that begins with a single
    word may be a command (``["git", "push", "--force"]``): it is there as the line that a shell would be given, too.
    """
    found: list[str] = []
    waiting = [value]
    for item in waiting:  # grows while it is walked: a loop, because recursion has a limit
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            for key, entry in item.items():  # a loop: for the few entries that there are, quicker than to extend
                found.append(key)
                waiting.append(entry)
        elif isinstance(item, list):
            waiting.extend(item)
            if _is_command(item):
                found.append(shlex.join(item))
    return found


def _is_command(items: list[Json]) -> bool:
    first = items[0] if len(items) > 1 else None
    return isinstance(first, str) and len(first.split()) == 1 and all(isinstance(item, str) for item in items)


MAX_NESTING: Final = 200  # what the strict parser allows; rules and stores recurse no deeper

_SHOWN: Final = 40  # characters of a key in a reason
# Integers that readers with 64 bits hold.
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
_DIGITS_AS_ZERO: Final = bytes.maketrans(b"123456789", b"000000000")
_NINETEEN_DIGITS: Final = b"0" * 19
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_TOO_DEEP: Final = f"nested deeper than {MAX_NESTING} levels"
_decode = msgspec.json.Decoder().decode
_pack = msgspec.msgpack.Encoder().encode


class Arguments(NamedTuple):
    """What a text of arguments says."""

    value: Json  # the text itself where it cannot be read
    unreadable: bool = False
    contested: str = ""  # why common readers differ on it; empty: they agree


UNREAD: Final = Arguments(f"{{arguments {_TOO_DEEP}", unreadable=True)
"""What is made of arguments that came as values, nested too deep: a text that begins as JSON, and is none.

Rules that look for texts in arguments know by the bracket that there was more than this text.
"""


def parse_json(value: bytes, *, strict_keys: bool = True) -> Json:
    """Return the value; ValueError when it is not JSON, is nested too deep, or gives a key twice.

    Two parsers run, because neither checks everything: one finds duplicate keys and limits the depth, the other refuses
    numbers that no double holds. Where keys may come twice, few brackets are proof enough of the depth.
    """
    if not strict_keys and value.count(b"[") + value.count(b"{") <= MAX_NESTING:
        try:
            return _decode(value)
        except ValueError:
            pass  # the other parser says better what is wrong
    check_json(value, strict_keys)
    return _decode(value)


def read_arguments(text: str) -> Arguments:
    """Return what the tool will get from a text; a text without anything in it is a call without arguments.

    Text that is not JSON, even after decoding it twice, is returned as it is: an attempt with broken arguments is
    still an attempt, and a rule may look at them.
    """
    plain = _read_plain(text)
    if plain is not None:
        return Arguments(plain)
    if not text.strip():
        return Arguments({})
    value: Json = text
    contested = ""
    try:
        for _ in range(2):
            value, why = _read(value)
            contested = contested or why
            if not isinstance(value, str):
                return Arguments(value, contested=contested)
    except _TooDeepError as error:
        return Arguments(text, unreadable=True, contested=str(error))
    except (ValueError, RecursionError):
        pass
    return Arguments(text, unreadable=True, contested=contested)


def parse_arguments(text: str, *, strict_keys: bool = True) -> tuple[Json, bool]:
    """Return the arguments a model wrote as text, and whether they could not be read.

    Contested text is returned as it is, and judged when it is read again; unless ``strict_keys`` is off, which trusts
    the source.
    """
    plain = _read_plain(text)
    if plain is not None:
        return plain, False
    value, unreadable, contested = read_arguments(text)
    return (text, True) if contested and strict_keys else (value, unreadable)


def read_call(call: ToolCall) -> ToolCall:
    """Return a call with its arguments read where they are still text. Those that are nested too deep are not read."""
    args = call.args
    if type(args) is not str and not is_deep(args):
        return call
    value, unreadable, contested = read_arguments(args) if type(args) is str else UNREAD
    return replace(call, args=value, parse_error=unreadable, contested=contested or call.contested)


def read_attempt(attempt: ToolCall) -> ToolCall:
    """Return an attempt that is asked about with its arguments: whoever asks and gives none has none to give."""
    if attempt.args is None and attempt.captured:
        return replace(attempt, args={})
    return read_call(attempt)


def looks_like_json(text: str) -> bool:
    """Whether a text begins like JSON, so that a lenient reader may take arguments from it."""
    return text.lstrip()[:1] in ("{", "[", '"')


class _TooDeepError(ValueError):
    """The text is JSON, and nested deeper than some readers go."""


def _read_plain(text: str) -> dict[str, Json] | None:
    """Return the object of a text on which no two readers can differ; None for every other text.

    Keys that look alike are not ASCII, and numbers that do not fit have many digits.
    """
    try:
        written = text.encode()
    except UnicodeEncodeError:
        return None
    beyond_ascii = b"\\u" in written or not text.isascii()
    if beyond_ascii and (b"\\ud" in written or b"\\uD" in written):  # perhaps half of a surrogate pair
        return None
    if len(written) > len(_NINETEEN_DIGITS) and _NINETEEN_DIGITS in written.translate(_DIGITS_AS_ZERO):
        return None
    try:
        value = parse_json(written)
    except ValueError:
        return None
    if type(value) is not dict or (beyond_ascii and not _has_plain_keys(value)):
        return None
    return value


def _has_plain_keys(value: dict[str, Json]) -> bool:
    """Whether all keys are ASCII, which this can only tell where nothing is nested."""
    return all(key.isascii() and type(inner) is not dict and type(inner) is not list for key, inner in value.items())


def _read(text: str) -> tuple[Json, str]:
    """Return the value of a JSON text, and why common readers differ on it; ValueError when it is not JSON."""
    plain = _read_plain(text)
    return (plain, "") if plain is not None else _read_closely(text)


def _read_closely(text: str) -> tuple[Json, str]:
    reader = _Reader()
    value = json.loads(text, object_pairs_hook=reader.take_object, parse_int=reader.take_integer)
    if _nesting(value) > MAX_NESTING:
        raise _TooDeepError(f"they are {_TOO_DEEP}")
    if not text.isascii() or _ESCAPED_SURROGATE.search(text) is not None:
        value = mend_text(value)
    return value, reader.contested


class _Reader:
    """Reads objects and integers as Python does, and notes where others do not."""

    def __init__(self) -> None:
        self.contested = ""

    def take_object(self, pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        """Return the object; the last of equal keys wins."""
        found: dict[str, Json] = {}
        for key, value in pairs:
            # Given twice alike, every reader takes the same.
            if key in found and not json_equal(found[key], value):
                self._note(f"the key {_show(key)} is given twice")
            found[key] = value
        if any(not key.isascii() for key in found):
            self._compare_folded(found)
        return found

    def take_integer(self, digits: str) -> int | float:
        """Return the number; one that 64 bits do not hold as a float, as other readers take it."""
        number = int(digits)
        if _LEAST <= number <= _MOST:
            return number
        self._note("a number has more digits than 64 bits hold")
        return float(digits)

    def _compare_folded(self, found: dict[str, Json]) -> None:
        folded: dict[str, str] = {}
        for key in found:
            other = folded.setdefault(fold_key(key), key)
            if other != key:
                self._note(f"the keys {_show(other)} and {_show(key)} are the same after normalisation")

    def _note(self, why: str) -> None:
        self.contested = self.contested or why


def fold_key(key: str) -> str:
    """Return a key as readers that normalise compare it: NFKC, without characters that nobody sees."""
    plain = unicodedata.normalize("NFKC", key)
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")


def mend_text(value: Json) -> Json:
    """Return the value with each half of a surrogate pair replaced: no store and no alert can hold one."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {mend_text(key): mend_text(item) for key, item in value.items()}
    return [mend_text(item) for item in value] if isinstance(value, list) else value


def bounded(args: Json) -> Json:
    """Return arguments that a framework has read; too deep ones become a text that is not JSON."""
    return UNREAD.value if _nesting(args) > MAX_NESTING else mend_text(args)


def is_deep(args: Json) -> bool:
    """Whether arguments that came as values are nested deeper than rules and stores go."""
    if type(args) is dict:
        for item in args.values():
            if type(item) is dict or type(item) is list:
                break
        else:
            return False
    try:
        if len(_pack(args)) <= MAX_NESTING:  # each level takes a byte
            return False
    except RecursionError:
        return True
    except (TypeError, ValueError, OverflowError):
        pass  # of callers in this process: a value that JSON does not have
    return _nesting(args) > MAX_NESTING


def _nesting(value: Json) -> int:
    """Return how many objects and lists lie in one another, up to one too many; a loop, for recursion has limits."""
    levels = 0
    layer = [value]
    while levels <= MAX_NESTING and (layer := [item for item in layer if isinstance(item, dict | list)]):
        levels += 1
        layer = [inner for item in layer for inner in (item.values() if isinstance(item, dict) else item)]
    return levels


def _show(key: str) -> str:
    return ascii(key[:_SHOWN])
