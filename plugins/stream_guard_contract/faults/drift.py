"""How a degraded model changes its answer: truncation, response drift and garbage.

Texts in, texts out. Where Flakestorm's results were measured, these functions return the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

GARBAGE: Final = " invalid utf-8 sequence \x00\x01 gibberish ##@@"
RATE_LIMITED: Final = "Rate limit exceeded"
DEFAULT_WORDS: Final = 10  # of an answer that is cut short
DEFAULT_FACTOR: Final = 2.0
_MOST_FACTOR: Final = 1e9  # a text is never more than doubled; infinity is no number of words

_RENAME_AMONG: Final = 5  # only the first fields of an object are candidates for renaming
_PROSE_FIELDS: Final = 10  # fields of an object that are written as prose
_RENAMED: Final = {
    "action": "tool_name",
    "tool_name": "action",
    "name": "name_v2",
    "type": "type_v2",
    "output": "output_v2",
}
_REPHRASED: Final = (
    (re.compile(r"i can't do that", re.IGNORECASE), "I'm not able to assist with that"),
    (re.compile(r"i cannot", re.IGNORECASE), "I'm unable to"),
    (re.compile(r"not allowed", re.IGNORECASE), "against my guidelines"),
)


def truncate(text: str, words: int | None = None) -> str:
    """Return the first words, joined by single spaces; a shorter text stays as it is."""
    most = words or DEFAULT_WORDS
    found = text.split()
    return text if len(found) <= most else " ".join(found[:most])


def rename_field(text: str) -> str:
    """Return a JSON object with one well-known field renamed; text that is not JSON stays as it is."""
    try:
        data = json.loads(text)
    except ValueError:
        return text
    if isinstance(data, dict):
        known = next((key for key in list(data)[:_RENAME_AMONG] if key in _RENAMED), None)
        if known is not None:
            data[_RENAMED[known]] = data.pop(known)
    return json.dumps(data, ensure_ascii=False)


def change_format(text: str) -> str:
    """Return a JSON object as prose; any other text stays as it is."""
    try:
        data = json.loads(text)
    except ValueError:
        return text
    if not isinstance(data, dict):
        return text
    return " ".join(f"{key}: {value}" for key, value in list(data.items())[:_PROSE_FIELDS])


def shift_verbosity(text: str, direction: str | None = None, factor: float | None = None) -> str:
    """Return the text expanded by repeating its words, or compressed to its beginning."""
    words = text.split()
    by = min(factor or DEFAULT_FACTOR, _MOST_FACTOR)
    if not words:
        return text
    if direction == "compress":
        kept = max(1, int(len(words) / by))
        return " ".join(words[:kept]) if kept < len(words) else text
    more = max(1, int(len(words) * (by - 1.0)))
    return " ".join(words + words[:more])


def rephrase_refusal(text: str) -> str:
    """Return the text with common refusal phrases replaced by other refusal phrases."""
    for pattern, instead in _REPHRASED:
        text = pattern.sub(instead, text)
    return text


def shift_tone(text: str) -> str:
    """Return the text with formal phrases replaced by casual ones."""
    return text.replace("I would like to", "I wanna").replace("cannot", "can't")


_PLAIN_DRIFTS: Final[Mapping[str, Callable[[str], str]]] = {
    "json_field_rename": rename_field,
    "format_change": change_format,
    "refusal_rephrase": rephrase_refusal,
    "tone_shift": shift_tone,
}


def drift(
    text: str, drift_type: str | None = None, *, direction: str | None = None, factor: float | None = None
) -> str:
    """Return the text as another version of the model might write it; an unknown drift type changes nothing."""
    name = (drift_type or "json_field_rename").lower()
    if name == "verbosity_shift":
        return shift_verbosity(text, direction and direction.lower(), factor)
    change = _PLAIN_DRIFTS.get(name)
    try:
        return text if change is None else change(text)
    except RecursionError:  # hostile nesting depth
        return text
