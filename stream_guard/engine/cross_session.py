"""Rules whose key spans sessions: one index for each key, one ``KeyState`` for each value of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stream_guard.engine.bound import BoundRule, key_path, key_text
from stream_guard.engine.index import Index
from stream_guard.language.paths import MISSING
from stream_guard.model import Event

MARK: Final = "\x00"
"""First character of every reserved row id. No session id may begin with it."""


class CrossSessionRules:
    """The rules of one key that leaves ``session`` out, such as ``[agent]`` or ``[labels.tenant, tool]``."""

    __slots__ = ("_paths", "_prefix", "index", "key")

    def __init__(self, key: tuple[str, ...], bounds: Sequence[BoundRule]) -> None:
        self.key = key
        self._paths = [key_path(part) for part in key]
        self._prefix = f"{MARK}{'+'.join(key)}{MARK}"
        self.index = Index(bounds)

    def key_id(self, event: Event) -> str | None:
        """Return the id of the event's key value, or None when the event has no value for the key."""
        values = []
        for path in self._paths:
            value = path.find(event)
            if value is MISSING or value is None or value == "":
                return None
            values.append(key_text(value))
        return self._prefix + "/".join(values)

    def owns(self, key_id: str) -> bool:
        """Whether the id is a value of this key."""
        return key_id.startswith(self._prefix)
