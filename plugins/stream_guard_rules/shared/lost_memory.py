"""What a rule lacks that could not read everything, or had to forget some of what it read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec.structs import replace

import stream_guard as sg

T = TypeVar("T")

UNREAD: Final = sg.Unsure("unevaluable", "the rest of a text that is too long to be read")
FORGOTTEN: Final = sg.Unsure("unevaluable", "what it had to forget: more came than it remembers")
FORGOTTEN_LATER: Final = replace(FORGOTTEN, followup=True)  # what is owed or made good later holds up no call

_SKETCH_BYTES: Final = 2**11  # of 1000 names that were forgotten, one new name in 200 is taken for one of them


class Forgetful(Protocol):
    """A state that remembers a bounded number of things, and of the evicted ones only that they were there."""

    forgotten: sg.Sketch | None


def with_room(items: Sequence[T], most: int, name: Callable[[T], str], state: Forgetful) -> Sequence[T]:
    """Return the items, so many of the latest that one more fits; the state notes the names of the evicted ones."""
    surplus = len(items) - most + 1
    if surplus <= 0:
        return items
    for item in items[:surplus]:
        note_forgotten(name(item), state)
    return items[surplus:]


def evict_oldest(held: dict[Any, Any], most: int, state: Forgetful) -> None:
    """Evict the oldest entries beyond ``most``; the state notes their names."""
    for name in list(held)[: max(0, len(held) - most)]:
        del held[name]
        note_forgotten(str(name), state)


def note_forgotten(name: str, state: Forgetful) -> None:
    """Note that what the state knew of a name is evicted."""
    if state.forgotten is None:
        state.forgotten = sg.Sketch()
    state.forgotten.add(sg.sketch_number(name), _SKETCH_BYTES)


def was_forgotten(name: str, state: Forgetful) -> bool:
    """Whether what the state knew of a name was evicted, or may have been."""
    return state.forgotten is not None and sg.sketch_number(name) in state.forgotten
