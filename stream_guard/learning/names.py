"""The names under which tools are learned: by their words, so that other spellings give the same rules."""

from __future__ import annotations

import re
from typing import Final

from stream_guard.judge.patterns import main_reading
from stream_guard.learning.classes import ACTS, ANY

# A name an agent made up must not become a pattern in a policy, nor a hundred lines of it.
_PLAIN: Final = re.compile(r"[\w.:/-]{1,128}")


def is_plain_name(name: str) -> bool:
    """Whether a policy may name a tool or an argument as it is: agents invent names that look like patterns."""
    return _PLAIN.fullmatch(name) is not None


class LearnedNames:
    """Gives every tool one name. Two tools of one session that only differ in their server keep their own names."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}  # by name: how it was spelled first
        self._read: dict[str, str] = {}  # by spelling: its name
        self._ambiguous: set[str] = set()

    def name(self, spelling: str, in_session: dict[str, str]) -> str:
        """Return the name of a tool; empty for one that no policy may name. ``in_session`` is spellings by name."""
        if spelling not in self._read:
            self._read[spelling] = (main_reading(spelling) or spelling) if is_plain_name(spelling) else ""
        name = self._read[spelling]
        if not name:
            return ""
        if in_session.setdefault(name, spelling) != spelling:
            self._ambiguous.add(name)
            self._first.setdefault(spelling, spelling)
            return spelling
        self._first.setdefault(name, spelling)
        return name

    def pattern(self, name: str) -> str:
        """Return how a policy writes a tool or a class: by its words, or as spelled where the words mean two tools."""
        if name in (ANY, ACTS):
            return name
        by_words = name not in self._ambiguous and main_reading(self._first.get(name, name)) == name
        return f"~{name}" if by_words else self._first.get(name, name)
