"""Labels that rules set on a session: later events of it carry them, beside their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final
from zlib import crc32

import msgspec
from msgspec.structs import replace

from stream_guard.judge.model import Event
from stream_guard.judge.spec import RuleSpec

_ABOVE: Final = 2 << 32  # above the tags of conditions, and above those that say that one is unknown


class DerivedLabels:
    """The labels that the rules of a policy may set.

    A session keeps each as a number in its memory, among those of the conditions that held. So they are stored and
    restored with it, and there are never more than the policy names.
    """

    __slots__ = ("_by_tag", "_names")

    def __init__(self, rules: Sequence[RuleSpec]) -> None:
        labels = {label for spec in rules for label in spec.set_labels.items()}
        self._by_tag = {_tag(*label): label for label in sorted(labels)}
        self._names = frozenset(name for name, _ in labels)

    def __bool__(self) -> bool:
        return bool(self._names)

    def set(self, labels: Mapping[str, str], memory: set[int]) -> None:
        """Set labels from the next event on. A label has one value: the last."""
        memory -= {tag for tag, (name, _) in self._by_tag.items() if name in labels}
        memory |= {_tag(*label) for label in labels.items()}

    def beside(self, own: dict[str, str], memory: Set[int]) -> dict[str, str]:
        """Return the labels of an event with those of its session.

        A name that rules set is theirs alone: a source cannot set it, nor take it away.
        """
        derived = dict(label for tag, label in self._by_tag.items() if tag in memory)
        if not derived and self._names.isdisjoint(own):
            return own
        return {name: value for name, value in own.items() if name not in self._names} | derived

    def onto(self, event: Event, memory: Set[int]) -> Event:
        """Return the event with the labels of its session: a copy, as the session knows events by their content."""
        labels = self.beside(event.labels, memory)
        return event if labels is event.labels else replace(event, labels=labels)


def _tag(name: str, value: str) -> int:
    return _ABOVE + crc32(msgspec.json.encode((name, value)))
