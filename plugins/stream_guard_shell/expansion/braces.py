"""Brace expansion: ``{a,b}`` and ``{1..9}``, before all else and without looking at values."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, TypeAlias

from stream_guard_shell.syntax.nodes import Literal, Part, Word

_Items: TypeAlias = list[str | Part]  # unquoted characters one by one, and parts that stay whole

_NUMBERS: Final = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})(?:\.\.(-?\d{1,9}))?")
_LETTERS: Final = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,9}))?")


class TooManyWordsError(Exception):
    """Braces make more words than are read."""


def expand_braces(word: Word, most: int) -> list[Word]:
    """Return the words that braces make of one; raise TooManyWordsError where they are more than ``most``."""
    unquoted = "".join([part.text for part in word if isinstance(part, Literal) and not part.quoted])
    if "{" not in unquoted or ("," not in unquoted and ".." not in unquoted):
        return [word]
    items: _Items = []
    for part in word:
        if isinstance(part, Literal) and not part.quoted:
            items.extend(part.text)
        else:
            items.append(part)
    return [_word_of(made) for made in _expand(items, _closings(items), 0, len(items), most)]


def _closings(items: _Items) -> dict[int, int]:
    """Return where each brace that is closed closes."""
    open_at: list[int] = []
    closed: dict[int, int] = {}
    for at, item in enumerate(items):
        if item == "{":
            open_at.append(at)
        elif item == "}" and open_at:
            closed[open_at.pop()] = at
    return closed


def _expand(items: _Items, closed: dict[int, int], start: int, end: int, most: int) -> list[_Items]:
    made: list[_Items] = [[]]
    at = start
    while at < end:
        stop = closed.get(at) if items[at] == "{" else None
        choices = _choices(items, closed, at, stop, most) if stop is not None else None
        if choices is None or stop is None:
            for one in made:
                one.append(items[at])
            at += 1
            continue
        if len(made) * len(choices) > most:
            raise TooManyWordsError
        made = [before + choice for before in made for choice in choices]
        at = stop + 1
    return made


def _choices(items: _Items, closed: dict[int, int], at: int, stop: int, most: int) -> list[_Items] | None:
    """Return what a pair of braces stands for; None where it stands for itself."""
    cuts = []
    inner = at + 1
    while inner < stop:
        if items[inner] == "{" and inner in closed:
            inner = closed[inner]
        elif items[inner] == ",":
            cuts.append(inner)
        inner += 1
    if not cuts:
        return _range(items[at + 1 : stop], most)
    ends = [at, *cuts, stop]
    choices: list[_Items] = []
    for before, after in pairwise(ends):
        choices.extend(_expand(items, closed, before + 1, after, most))
        if len(choices) > most:
            raise TooManyWordsError
    return choices


def _range(items: _Items, most: int) -> list[_Items] | None:
    if len(items) > 40 or not all(isinstance(item, str) for item in items):
        return None
    text = "".join([item for item in items if isinstance(item, str)])
    numbers, letters = _NUMBERS.fullmatch(text), _LETTERS.fullmatch(text)
    if numbers:
        first, last = int(numbers.group(1)), int(numbers.group(2))
        texts = [numbers.group(1).lstrip("-"), numbers.group(2).lstrip("-")]
        width = max(map(len, texts)) if any(one.startswith("0") and len(one) > 1 for one in texts) else 0
        step = abs(int(numbers.group(3) or 1)) or 1
    elif letters:
        first, last = ord(letters.group(1)), ord(letters.group(2))
        width, step = -1, abs(int(letters.group(3) or 1)) or 1
    else:
        return None
    if abs(last - first) // step > most:
        raise TooManyWordsError
    values = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    return [list(chr(value) if width < 0 else f"{value:0{width}d}") for value in values]


def _word_of(items: _Items) -> Word:
    parts: list[Part] = []
    text: list[str] = []
    for item in items:
        if isinstance(item, str):
            text.append(item)
            continue
        if text:
            parts.append(Literal("".join(text), quoted=False))
            text = []
        parts.append(item)
    if text:
        parts.append(Literal("".join(text), quoted=False))
    return tuple(parts)
