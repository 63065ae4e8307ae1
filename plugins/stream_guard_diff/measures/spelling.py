"""Slips: a word or a number in an argument that is nearly a known one, and that nobody else ever wrote."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from stream_guard import RecordedTurn
from stream_guard_diff.trails import ResultStep, SessionTrail, UserStep

_TOKENS: Final = re.compile(r"[^\W_]+")
_SIGNS: Final = re.compile(r"^https?:|[\W_]+")
_LONGEST: Final = 200_000  # characters of one text that are read
# Short numbers and words have neighbours that are as right as they are; a word with a digit in it hardly has.
_LEAST_MIXED: Final = 4
_LEAST_WORD: Final = 6
_LEAST_NUMBER: Final = 6
_LEAST_VALUE: Final = 4
_LONGEST_VALUE: Final = 100


def tokens_of(text: str) -> list[str]:
    """Return the words and numbers of a text, in small letters."""
    return _TOKENS.findall(text[:_LONGEST].lower())


def written(step: UserStep | ResultStep) -> str:
    """Return what a user or a tool wrote."""
    if isinstance(step, UserStep):
        return step.text
    return step.output if isinstance(step.output, str) else json.dumps(step.output, ensure_ascii=False)


class Spelling:
    """The words and numbers of all sessions: in which ones they stand, and which are nearly alike."""

    def __init__(self, trails: Sequence[SessionTrail]) -> None:
        self._context = [set(_context(trail)) for trail in trails]
        self._sessions: defaultdict[str, set[int]] = defaultdict(set)
        for number, trail in enumerate(trails):
            for token in self._context[number].union(_arguments(trail)):
                self._sessions[token].add(number)
        self._values: defaultdict[tuple[tuple[str, str], int], list[str]] = defaultdict(list)
        self._by_length: defaultdict[int, list[str]] = defaultdict(list)
        for token, found in self._sessions.items():
            if len(found) > 1:
                self._by_length[len(token)].append(token)

    def add_value(self, place: tuple[str, str], value: str) -> None:
        """Keep a value that an argument was given."""
        if _LEAST_VALUE <= len(value) <= _LONGEST_VALUE:
            self._values[place, len(value)].append(value)

    def is_miswritten(self, place: tuple[str, str], value: str) -> bool:
        """Whether a value has one sign too many or too few, beside another one of the same argument.

        Another sign in its place is no slip: that is how numbers and days that follow each other differ.
        """
        if not _LEAST_VALUE <= len(value) <= _LONGEST_VALUE:
            return False
        return any(_is_near(value, self._values[place, len(value) + step]) for step in (-1, 1))

    def is_slip(self, token: str, session: int) -> bool:
        """Whether a token of a session's argument is in no other session, and one letter or digit from a known one."""
        if len(self._sessions[token]) > 1 or not _least(token) <= len(token) <= _LONGEST_VALUE:
            return False
        own = [one for one in self._context[session] if abs(len(one) - len(token)) <= 1]
        lengths = range(len(token) - 1, len(token) + 2)
        return any(_is_near(token, choices) for choices in (own, *(self._by_length[one] for one in lengths)))


def _is_near(token: str, choices: Sequence[str]) -> bool:
    found = process.extract(token, choices, scorer=Levenshtein.distance, score_cutoff=1, limit=4)
    return any(one != token and not _is_as_good(token, one) for one, _, _ in found)


def _is_as_good(first: str, second: str) -> bool:
    """Whether two are both right: a letter more at the end, as in a plural, or other signs between the same words."""
    if first.isalpha() and (first.startswith(second) or second.startswith(first)):
        return True
    return _SIGNS.sub("", first).lower() == _SIGNS.sub("", second).lower()


def _least(token: str) -> int:
    if token.isdigit():
        return _LEAST_NUMBER
    return _LEAST_WORD if token.isalpha() else _LEAST_MIXED


def _context(trail: SessionTrail) -> Iterable[str]:
    for step in trail.steps:
        yield from tokens_of(step.text if isinstance(step, RecordedTurn) else written(step))


def _arguments(trail: SessionTrail) -> Iterable[str]:
    for turn in trail.recording.turns:
        for call in turn.calls:
            yield from tokens_of(json.dumps(call.args, ensure_ascii=False))
