"""Values in JSON: where they stand, and whether a text or an earlier result said them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from stream_guard.judge.model import Json
from stream_guard.redaction import redact

MOST_PATHS: Final = 40  # of one object
_DEEPEST: Final = 3
_MOST_TEXT: Final = 20_000  # characters of one text that are looked at
_KEY: Final = re.compile(r"(?!tool$)[A-Za-z_][\w-]{0,63}")
_SPLIT: Final = {ord(char): " " for char in "\"'<>(){}[],;`|"}
_DROPPED: Final = {code: None for code in range(33, 128) if not chr(code).isalnum() and code not in _SPLIT}
_TO_PIECES: Final = {**_SPLIT, **_DROPPED}


def is_plain_key(key: str) -> bool:
    """Whether a policy may name a key of an object: an agent can write keys that a policy reads as something else."""
    return _KEY.fullmatch(key) is not None


def is_secret(path: str, value: Json) -> bool:
    """Whether a value must not come into a policy: it is a secret by its look or by its name."""
    named = {path.rpartition(".")[2]: value}
    return bool(redact(named) != named)


def scalars(value: Json) -> dict[str, Json]:
    """Return the texts, numbers and booleans of an object by dotted path; lists are left out."""
    found: dict[str, Json] = {}
    waiting: list[tuple[str, Json, int]] = [("", value, 0)]
    for prefix, item, depth in waiting:
        if not isinstance(item, dict):
            continue
        for key, entry in item.items():
            if not is_plain_key(key):
                continue
            path = f"{prefix}{key}"
            if isinstance(entry, dict) and depth + 1 < _DEEPEST:
                waiting.append((f"{path}.", entry, depth + 1))
            elif isinstance(entry, str | int | float) and len(found) < MOST_PATHS:
                found[path] = entry
    return found


def parsed(output: Json) -> Json:
    """Return the output of a tool, read where it is JSON in a text."""
    if not isinstance(output, str) or output.lstrip()[:1] not in ("{", "["):
        return output
    try:
        return json.loads(output)
    except (ValueError, RecursionError):
        return output


def texts_in(value: Json) -> Iterator[str]:
    """Yield every text and number in a JSON value; the keys of objects are left out."""
    waiting = [value]
    for item in waiting:  # grows while it is walked: a loop, because recursion has a limit
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield f"{item:.12g}" if abs(item) < 10**15 else ""


def pieces(text: str) -> list[str]:
    """Return the letters and digits of each piece of a text; blanks, quotes, brackets and commas separate pieces."""
    return text[:_MOST_TEXT].lower().translate(_TO_PIECES).split()


class Said:
    """Which sources of a session said which pieces of text so far, each source a bit."""

    __slots__ = ("_by_piece",)

    def __init__(self) -> None:
        self._by_piece: dict[str, int] = {}

    def add(self, value: Json, source: int) -> None:
        """Take note of what a source said."""
        known = self._by_piece
        for text in texts_in(value):
            for piece in pieces(text):
                known[piece] = known.get(piece, 0) | source

    def sources(self, text: str) -> int:
        """Return the sources that said every piece of a text."""
        known: Mapping[str, int] = self._by_piece
        common = -1
        for piece in pieces(text):
            # A whole number is said by 20.00 too, whose dot is dropped like that of a sentence.
            common &= known.get(piece, 0) | (known.get(f"{piece}00", 0) if piece.isdigit() else 0)
        return max(common, 0)
