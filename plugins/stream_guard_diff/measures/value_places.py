"""Where the values of a session stand before they are given to a call, and who wrote them there."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from stream_guard import RecordedTurn, ToolPattern
from stream_guard_diff.measures.arguments import ArgumentPlace, leaves_of
from stream_guard_diff.measures.spelling import written
from stream_guard_diff.trails import SessionTrail, UserStep

CONSEQUENTIAL: Final = ToolPattern(["@write", "@money", "@egress"])
_MOST_VALUES: Final = 100  # of one session
_LONGEST: Final = 200_000  # characters of one step that are read
_LONGEST_WORD: Final = 40
_WORD: Final = re.compile(r"[\w#@.+:/-]*\w")
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")

Writer: TypeAlias = Literal["user", "agent", "result", "call"]


class PlacedValue(NamedTuple):
    """A value that a call with consequences is given."""

    place: ArgumentPlace
    text: str
    at: int  # the steps before it are those that the agent had seen
    beside: tuple[str, ...]  # the other values of the call


class ValuePlaces:
    """The steps of a session, the words in each, and the values of its calls with consequences."""

    def __init__(self, trail: SessionTrail) -> None:
        self.writers: list[Writer] = []
        self.values: list[PlacedValue] = []
        self._steps: defaultdict[str, list[int]] = defaultdict(list)  # of a word
        self._alike: defaultdict[str, set[str]] = defaultdict(set)  # words with a digit, by their form
        for step in trail.steps:
            if isinstance(step, RecordedTurn):
                self._add_turn(step)
            else:
                self._add("user" if isinstance(step, UserStep) else "result", written(step))

    def _add_turn(self, turn: RecordedTurn) -> None:
        # What the agent says beside a call is no evidence for it: both come from one thought.
        for call in turn.calls:
            if CONSEQUENTIAL.matches(call.tool):
                given = list(leaves_of(call.args))[: _MOST_VALUES - len(self.values)]
                texts = dict.fromkeys(text for _, text in given)
                self.values += [
                    PlacedValue((call.tool, name), text, len(self.writers), tuple(one for one in texts if one != text))
                    for name, text in given
                ]
        self._add("agent", turn.text)
        for call in turn.calls:
            self._add("call", json.dumps(call.args, ensure_ascii=False))

    def _add(self, writer: Writer, text: str) -> None:
        number = len(self.writers)
        self.writers.append(writer)
        for word in set(_WORD.findall(text[:_LONGEST].lower())):
            self._steps[word].append(number)
            if len(word) <= _LONGEST_WORD and _DIGIT.search(word):
                self._alike[form_of(word)].add(word)

    def steps_with(self, text: str, before: int) -> Sequence[int]:
        """Return the steps before another one in which all words of a text stand."""
        words = _WORD.findall(text.lower())
        if not words:
            return ()
        listed = sorted((self._steps.get(word, []) for word in words), key=len)
        found = listed[0][: bisect_left(listed[0], before)]
        for steps in listed[1:]:
            others = set(steps)
            found = [step for step in found if step in others]
        return found

    def siblings(self, text: str, before: int) -> list[str]:
        """Return other words of the form of a value, if that has a digit, which stood before a step."""
        value = text.lower()
        alike = self._alike.get(form_of(value), set()) - {value}
        return sorted(word for word in alike if self._steps[word][0] < before)

    def is_spoken(self, text: str) -> bool:
        """Whether a text stands anywhere in what the user or the agent says."""
        return any(self.writers[step] in ("user", "agent") for step in self.steps_with(text, len(self.writers)))


def form_of(value: str) -> str:
    """Return where the letters and the digits of a value are."""
    return _LETTER.sub("a", _DIGIT.sub("9", value))
