"""Parts of messages: values that are short and safe to print, lists of names, and the nearest known word."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from stream_guard.judge.model import Json

SHOWN: Final = 60


def show(value: Json) -> str:
    """Return the value for a message: on one line, cut, and without control characters."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    try:
        text = json.dumps(value[: SHOWN + 1] if isinstance(value, str) else value, ensure_ascii=False)
    except (TypeError, ValueError):
        return f"a value of type {type(value).__name__}"
    text = printable(text)
    return text if len(text) <= SHOWN + 2 else f'{text[:SHOWN]}..."'


def printable(text: str, most: int = 1000) -> str:
    """Return the text on one line, cut, and without control characters."""
    cut = text if len(text) <= most else f"{text[:most]}..."
    return cut if cut.isprintable() else "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in cut)


def listed(names: Iterable[str], word: str = "and") -> str:
    """Return the names as a person lists them: ``"a", "b" and "c"``."""
    quoted = [show(name) for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {word} {quoted[-1]}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean "..."?``, or nothing when nothing known is near."""
    near = nearest(word, known)
    return f"; did you mean {show(near)}?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that is nearest to this one, or nothing."""
    return _nearest(word[:100], tuple(known))


@lru_cache(maxsize=1024)
def _nearest(word: str, known: tuple[str, ...]) -> str:
    folded = {name.lower().replace("-", "_"): name for name in known}
    near = get_close_matches(word.lower().replace("-", "_"), list(folded), n=1, cutoff=0.6)
    return folded[near[0]] if near else ""
