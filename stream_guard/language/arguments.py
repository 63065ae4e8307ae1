"""Tool arguments that arrive as text: JSON written by a model, sometimes JSON in JSON, sometimes broken.

The reading of the executor counts. So a text is read as Python's ``json`` reads it: the last of two equal keys wins,
NaN and Infinity are numbers. Where common readers take something else from the same text, the arguments are contested.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from stream_guard.language.equality import json_equal
from stream_guard.language.strict_json import check_json
from stream_guard.model import Json, ToolCall

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
