"""What a text must contain for a regular expression to match: texts without it need not be searched.

Python's own parser takes the pattern apart. Where RE2 may read it in another way, nothing is known.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

_SHORTEST: Final = 3  # bytes: shorter ones occur in most texts
_MOST: Final = 32  # alternatives of one pattern
# Classes in brackets, octal numbers and quoting, which only RE2 knows, or knows otherwise.
_OTHERWISE: Final = re.compile(r"\[\[|\[\^\[|\[:|\\[0-9QE]")


@lru_cache(maxsize=256)
def required_literals(pattern: str) -> frozenset[str] | None:
    """Return literals of which one occurs, in small letters, in every text of ASCII that matches; None: unknown.

    Cached: a long pattern takes milliseconds, and the rules of one policy are arranged more than once.
    """
    if _OTHERWISE.search(pattern):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of sets that may mean something else one day
            parsed: Any = re._parser.parse(pattern)  # noqa: SLF001  # there is no public one
    except (re.error, RecursionError, OverflowError, Warning):
        return None
    return _of_sequence(parsed, 0)


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
