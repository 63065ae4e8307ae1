"""What a rule lacks that could not read everything, or had to forget some of what it read."""

from __future__ import annotations

from typing import Final

import stream_guard as sg

UNREAD: Final = sg.Unsure("unevaluable", "the rest of a text that is too long to be read")
FORGOTTEN: Final = sg.Unsure("unevaluable", "what it had to forget: more came than it remembers")

_SKETCH_BYTES: Final = 2**11  # of 1000 names that were forgotten, one new name in 200 is taken for one of them


def note_forgotten(name: str, forgotten: sg.Sketch | None) -> sg.Sketch:
    """Return the sketch of the names that a state has forgotten, with one more."""
    sketch = sg.Sketch() if forgotten is None else forgotten
    sketch.add(sg.sketch_number(name), _SKETCH_BYTES)
    return sketch


def was_forgotten(name: str, forgotten: sg.Sketch | None) -> bool:
    """Whether a state has forgotten what it knew of a name, or may have."""
    return forgotten is not None and sg.sketch_number(name) in forgotten
