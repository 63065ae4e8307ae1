"""The tokens and the cost of a turn in one spelling, whatever the provider or the framework calls them."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from stream_guard import Json

# The names of a turn's usage. Input holds what was read from a cache and written to it; output leaves thinking out.
INPUT: Final = "input_tokens"
OUTPUT: Final = "output_tokens"
THINKING: Final = "thinking_tokens"
CACHE_READ: Final = "cache_read_tokens"
CACHE_WRITE: Final = "cache_write_tokens"
COST: Final = "cost_usd"
OURS: Final = frozenset((INPUT, OUTPUT, THINKING, CACHE_READ, CACHE_WRITE, COST))

_Sort = Literal["input", "output", "thinking", "cache_read", "cache_write", "cache_write_share", "total", "cost", ""]

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_THINKING_WORDS: Final = frozenset(("thinking", "thoughts", "thought", "reasoning"))
_INPUT_WORDS: Final = frozenset(("input", "prompt"))
_OUTPUT_WORDS: Final = frozenset(("output", "completion", "candidates", "generated"))
# Shares of a number that stands beside them, and numbers of other things.
_OTHER_WORDS: Final = frozenset(
    (
        *("audio", "image", "video", "text", "document", "modality", "prediction", "accepted", "rejected", "miss"),
        *("requests", "second", "seconds", "duration", "time", "ms", "latency", "price", "limit", "max", "tool"),
    )
)
_MAX_TOKENS: Final = 10**15
_MAX_NAME: Final = 200


class _Meaning(NamedTuple):
    """What a name says: the sort of its number, and whether that number is beside the one it is a share of."""

    sort: _Sort
    beside: bool = False


def read_usage(found: Json, *, cost: Json = None, cache_beside: bool | None = None) -> dict[str, Json] | None:
    """Return the usage of a turn in our spelling, or None where nothing in it is known.

    Providers count cached tokens inside the input or beside it, and thinking inside the output or beside it. The total
    of the record decides, then ``cache_beside``, then the spelling. A record with only a total gives it as input.
    """
    known = found if isinstance(found, dict) else {}
    for name, value in known.items():
        if name not in OURS or not (type(value) is int or (type(value) is float and name == COST)) or value < 0:
            break
    else:
        if known and cost is None:
            return known  # nearly always so for native events
    numbers: dict[_Sort, float] = {}
    beside: set[_Sort] = set()
    _collect(known, "", numbers, beside)
    if "cache_write_share" in numbers:
        numbers.setdefault("cache_write", numbers["cache_write_share"])
    return _add_cost(_add_up(numbers, beside, cache_beside), numbers.get("cost") if cost is None else cost) or None


def _collect(found: dict[str, Json], path: str, numbers: dict[_Sort, float], beside: set[_Sort]) -> None:
    """Add the numbers in a record; the name of an inner one begins with that of the object around it."""
    for name, value in found.items():
        if isinstance(value, dict):
            if not path:
                _collect(value, f"{name[:_MAX_NAME]}.", numbers, beside)
            continue
        sort, is_beside = _meaning(path + name[:_MAX_NAME])
        number = _number(value) if sort else None
        if number is None:
            continue
        if is_beside:
            beside.add(sort)
        # The same number may stand under two names; only shares are added up.
        before = numbers.get(sort, 0.0)
        numbers[sort] = before + number if sort == "cache_write_share" else max(before, number)


def _add_up(numbers: dict[_Sort, float], beside: set[_Sort], cache_beside: bool | None) -> dict[str, Json]:
    """Return the numbers in our spelling, with cached tokens inside the input and thinking beside the output."""
    counted = {sort: int(number) for sort, number in numbers.items() if number < _MAX_TOKENS}
    if not counted.keys() - {"total", "cost"}:
        return {INPUT: counted["total"]} if "total" in counted else {}
    cached = counted.get("cache_read", 0) + counted.get("cache_write", 0)
    thinking = counted.get("thinking", 0)
    if cache_beside is None:
        cache_beside = bool(beside & {"cache_read", "cache_write"})
    # A share is never larger than its whole.
    cache_beside = cache_beside or cached > counted.get("input", 0)
    thinking_beside = "thinking" in beside or thinking > counted.get("output", 0)
    if "total" in counted:
        plain = counted.get("input", 0) + counted.get("output", 0)
        ways = [(cache_beside, thinking_beside), (False, False), (True, True), (True, False), (False, True)]
        fitting = [way for way in ways if plain + cached * way[0] + thinking * way[1] == counted["total"]]
        cache_beside, thinking_beside = fitting[0] if fitting else ways[0]
    usage: dict[str, Json] = {}
    if "input" in counted or cached:
        usage[INPUT] = counted.get("input", 0) + (cached if cache_beside else 0)
    if "output" in counted:
        usage[OUTPUT] = max(0, counted["output"] - (0 if thinking_beside else thinking))
    for sort, name in (("thinking", THINKING), ("cache_read", CACHE_READ), ("cache_write", CACHE_WRITE)):
        if sort in counted:
            usage[name] = counted[sort]
    return usage


def _add_cost(usage: dict[str, Json], cost: Json) -> dict[str, Json]:
    number = _number(cost)
    if number is not None:
        usage[COST] = number
    return usage


@lru_cache(maxsize=1024)
def _meaning(name: str) -> _Meaning:
    """Return what a name means, by its words: ``prompt_tokens_details.cached_tokens`` and ``cacheReadInputTokens``."""
    words = [word.lower() for word in _WORD.findall(name)]
    found = set(words)
    if "cost" in found:
        # A cost for each sort of token may stand beside the cost of all.
        shares = _INPUT_WORDS | _OUTPUT_WORDS | _THINKING_WORDS | {"cache", "upstream"}
        return _Meaning("" if found & shares else "cost")
    if found & _THINKING_WORDS and not found & _OTHER_WORDS:
        # Where it is called thinking or thoughts, or is one bucket of many, it is not part of the output.
        return _Meaning("thinking", beside=words[0] in ("thinking", "thoughts") or words[:2] == ["output", "reasoning"])
    if found & {"cache", "cached"} and not found & _OTHER_WORDS:
        return _meaning_of_cached(words)
    sort: _Sort = ""
    if not found & (_OTHER_WORDS | {"details"}):
        if "total" in found:
            sort = "total"
        elif found & _INPUT_WORDS:
            sort = "input"
        elif found & _OUTPUT_WORDS or words == ["eval", "count"]:
            sort = "output"
    return _Meaning(sort)


def _meaning_of_cached(words: list[str]) -> _Meaning:
    """Return what a name about a cache means.

    ``cache_read_input_tokens`` and ``input_cache_read`` are counted beside the input; ``cached_input_tokens`` and
    details of the input are counted inside it.
    """
    beside = "details" not in words and "input" in words and (words[0] == "cache" or words[0] == "input")
    if "ephemeral" in words:
        return _Meaning("cache_write_share", beside=beside)
    writes = {"write", "writes", "creation", "created", "written"} & set(words)
    return _Meaning("cache_write" if writes else "cache_read", beside=beside)


def _number(value: Json) -> float | None:
    """Return a number that may be written as a text; None for what is no number of tokens or dollars."""
    if type(value) is int and 0 <= value < _MAX_TOKENS:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if 0.0 <= number < math.inf else None
