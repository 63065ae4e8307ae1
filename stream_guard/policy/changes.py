"""Changes of arguments: what a rule with ``then: modify`` makes of a call that it objects to, so that it may run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from stream_guard.language.lookalikes import see_through
from stream_guard.language.patterns import Regex
from stream_guard.model import Json

MASK: Final = "[masked]"

_Change = Callable[[Json], Json]


class _Dropped:
    """Stands for a value that is taken out."""


_DROPPED: Final = _Dropped()


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """One change: of the value at a path, or of all arguments where there is no path."""

    path: str
    word: str  # cap, mask, drop or set
    value: Json  # what was written beside the word
    pattern: Regex | None = None  # of mask

    @property
    def source(self) -> dict[str, Json]:
        """The change as it is written in a policy."""
        return {**({"path": self.path} if self.path else {}), self.word: self.value}

    @property
    def words(self) -> str:
        """What an argument has to be to need no change."""
        where = self.path or "the arguments"
        said = {
            "cap": f"{where} of at most {self.value}",
            "drop": f"no {where}",
            "mask": f"{where} without what is masked",
        }
        return said.get(self.word) or f"{where} set to {json.dumps(self.value)}"

    def apply(self, args: Json) -> Json:
        """Return the arguments with this change; what came in stays as it is."""
        steps = tuple(self.path.split(".")) if self.path else ()
        return _at(args, steps, self._changed, creates=self.word == "set")

    def _changed(self, value: Json) -> Json:
        if self.word == "set":
            return self.value
        if self.word == "drop":
            return _DROPPED
        if self.word == "cap":
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return min(value, self.value) if is_number else value
        return _masked(value, self.pattern)


def change_all(args: Json, changes: Iterable[ArgumentChange]) -> Json:
    """Return arguments with all changes, one after the other."""
    for change in changes:
        args = change.apply(args)
    return args


def _at(value: Json, steps: tuple[str, ...], change: _Change, *, creates: bool) -> Json:
    """Return the value with what stands at the steps changed; where nothing stands there, as it is."""
    if not steps:
        return change(value)
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict) and (step in value or (creates and not rest)):
        changed = _at(value.get(step), rest, change, creates=creates)
        if changed is _DROPPED:
            return {key: item for key, item in value.items() if key != step}
        return {**value, step: changed}
    if isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
        number = int(step)
        changed = _at(value[number], rest, change, creates=creates)
        kept = () if changed is _DROPPED else (changed,)
        return [*value[:number], *kept, *value[number + 1 :]]
    return value


def _masked(value: Json, pattern: Regex | None) -> Json:
    if isinstance(value, str):
        return MASK if pattern is None else _without(value, pattern)
    if isinstance(value, dict):
        return {key: _masked(item, pattern) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item, pattern) for item in value]
    return MASK if pattern is None else value


def _without(text: str, pattern: Regex) -> str:
    """Return the text with every match masked; where only a reader sees one, all of it as the reader sees it."""
    masked = pattern.replace(text, MASK)
    if masked == text and (seen := see_through(text)) is not text and pattern.occurs_in(seen):
        return pattern.replace(seen, MASK)
    return masked
