"""What problems of a policy are made of: their codes, and the parts of their messages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from stream_guard.judge.model import Json


class Code(StrEnum):
    """What sort of problem it is."""

    UNREADABLE = "SG101"
    SYNTAX = "SG102"
    TWICE = "SG103"
    UNKNOWN_KEY = "SG104"
    MISSING_KEY = "SG105"
    WRONG_TYPE = "SG106"
    NOT_ALLOWED = "SG107"
    UNKNOWN_KIND = "SG108"
    DUPLICATE_ID = "SG109"
    BAD_ID = "SG110"
    CONDITION = "SG111"
    DEAD_PATH = "SG112"
    NEVER_FIRES = "SG113"
    REGEX = "SG114"
    TOOLS = "SG115"
    DURATION = "SG116"
    KEY = "SG117"
    NOT_A_POLICY = "SG118"
    NOT_PLAIN = "SG119"
    TOO_BIG = "SG120"
    ALIAS = "SG121"
    REFUSED = "SG122"
    KIND_FAILED = "SG123"
    AGENT = "SG124"
    TEST = "SG125"
    PACK = "SG126"
    SHARED = "SG127"
    NO_ID = "SG151"
    NO_RULES = "SG152"
    NOT_LISTED = "SG153"
    SAME = "SG154"
    CONTRADICTION = "SG155"
    CONSTANT = "SG157"
    DEAD = "SG158"
    CALLER = "SG159"
    OLD_WORD = "SG160"


Steps: TypeAlias = tuple[str | int, ...]


class Flaw(NamedTuple):
    """A mistake inside a value, with the path to it from that value."""

    at: Steps
    message: str
    code: Code
    on_key: bool = False
    word: str = ""  # the key that is missing, or that a misspelt one may have meant


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
