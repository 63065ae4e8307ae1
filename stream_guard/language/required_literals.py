"""What a text must contain for a regular expression to match: texts without it need not be searched.

Where a pattern is nothing but literals, the text that contains one of them matches, and need not be searched either.

Python's own parser takes the pattern apart. Where RE2 may read it in another way, nothing is known.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from itertools import product
from typing import Any, Final, NamedTuple

_PARSER: Final[Any] = import_module("re._parser")  # there is no public one
_SHORTEST: Final = 3  # bytes: shorter ones occur in most texts
_MOST: Final = 32  # alternatives of one pattern
_MOST_WHOLE: Final = 4  # literals that a pattern may stand for: each of them is looked for by itself
# Classes in brackets, octal numbers and quoting, which only RE2 knows, or knows otherwise.
_OTHERWISE: Final = re.compile(r"\[\[|\[\^\[|\[:|\\[0-9QE]")


@lru_cache(maxsize=256)
def required_literals(pattern: str) -> frozenset[str] | None:
    """Return literals of which one occurs, in small letters, in every text of ASCII that matches; None: unknown.

    Cached: a long pattern takes milliseconds, and the rules of one policy are arranged more than once.
    """
    parsed = _parse(pattern)
    return None if parsed is None else _of_sequence(parsed, 0)


class WholeLiterals(NamedTuple):
    """The literals that a pattern stands for: a text of ASCII matches where, and only where, it contains one."""

    texts: tuple[str, ...]  # in small letters where the case does not matter
    any_case: bool


@lru_cache(maxsize=256)
def whole_literals(pattern: str) -> WholeLiterals | None:
    """Return the few literals of ASCII that are all that a pattern matches; None: it matches something else too."""
    parsed = _parse(pattern)
    texts = None if parsed is None else _spelled_out(parsed, 0)
    if parsed is None or texts is None or not all(map(str.isascii, texts)):
        return None
    any_case = bool(parsed.state.flags & re.IGNORECASE)
    return WholeLiterals(tuple(text.lower() for text in texts) if any_case else tuple(texts), any_case)


def _spelled_out(items: Iterable[tuple[Any, Any]], level: int) -> list[str] | None:
    """Return all texts that a sequence matches, when they are few."""
    texts = [""]
    for operator, value in items:
        choices = [chr(value)] if str(operator) == "LITERAL" else _choices(str(operator), value, level + 1)
        if choices is None or len(texts) * len(choices) > _MOST_WHOLE:
            return None
        texts = ["".join(parts) for parts in product(texts, choices)]
    return texts


def _choices(operator: str, value: Any, level: int) -> list[str] | None:
    if level > 50:
        return None
    if operator == "SUBPATTERN":
        _group, added, removed, inner = value
        return None if added or removed else _spelled_out(inner, level)
    if operator == "IN":  # what branches of one character become
        return [chr(one) for _, one in value] if all(str(kind) == "LITERAL" for kind, _ in value) else None
    if operator != "BRANCH" or len(value[1]) > _MOST_WHOLE:
        return None
    branches = [_spelled_out(branch, level) for branch in value[1]]
    return None if None in branches else [text for branch in branches if branch is not None for text in branch]


def _parse(pattern: str) -> Any:
    """Return the pattern taken apart; None where RE2 may read it in another way."""
    if _OTHERWISE.search(pattern):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of sets that may mean something else one day
            return _PARSER.parse(pattern)
    except (re.error, RecursionError, OverflowError, Warning):
        return None


def _of_sequence(items: Iterable[tuple[Any, Any]], level: int) -> frozenset[str] | None:
    """Return the best literals that a sequence requires: those whose shortest is longest."""
    best: frozenset[str] | None = None
    run = ""
    for operator, value in items:
        if str(operator) == "LITERAL" and value < 128:
            run += chr(value).lower()
            best = _better(best, frozenset((run,)))
        else:
            run = ""
            best = _better(best, _of_item(str(operator), value, level + 1))
    return best


def _of_item(operator: str, value: Any, level: int) -> frozenset[str] | None:
    if level > 50:
        return None
    if operator == "SUBPATTERN":
        return _of_sequence(value[-1], level)
    if operator in {"MAX_REPEAT", "MIN_REPEAT"} and value[0] >= 1:
        return _of_sequence(value[2], level)
    if operator == "BRANCH":
        branches = [_of_sequence(branch, level) for branch in value[1]]
        found = frozenset(literal for branch in branches if branch is not None for literal in branch)
        return None if None in branches or len(found) > _MOST else found
    return None


def _better(known: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if other is None or min(map(len, other), default=0) < _SHORTEST:
        return known
    return other if known is None or min(map(len, other)) > min(map(len, known)) else known
