"""What a decoder remembers between records, saved together with the sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stream_guard.engine.cross_session import MARK
from stream_guard.ports import Store

_PREFIX: Final = f"{MARK}decoder{MARK}"


def is_memory_row(name: str) -> bool:
    """Whether a row of a store is a decoder's, and no session."""
    return name.startswith(_PREFIX)


class DecoderMemory:
    """Rows of a decoder in the store of the sessions, under names of the decoder's own.

    What is put stays here until ``flush``, which the table calls when the sessions are in the store. So a row that
    says that something was told is never safe before the session that it was told to.
    """

    def __init__(
        self, store: Store, part: str = "", changed: dict[str, tuple[bytes, float] | None] | None = None
    ) -> None:
        self._store = store
        self._prefix = f"{_PREFIX}{part}"
        self._changed = {} if changed is None else changed  # None: the row is to be dropped

    def part(self, name: str) -> DecoderMemory:
        """Return a memory of its own inside this one."""
        return DecoderMemory(self._store, f"{self._prefix[len(_PREFIX) :]}{name}{MARK}", self._changed)

    def get(self, name: str) -> bytes | None:
        """Return what was put last, or None."""
        row = self._prefix + name
        if row in self._changed:
            found = self._changed[row]
            return None if found is None else found[0]
        return self._store.get(row)

    def put(self, name: str, blob: bytes, at: float) -> None:
        """Keep the bytes; ``at`` orders the rows when they are listed."""
        self._changed[self._prefix + name] = (blob, at)

    def drop(self, name: str) -> None:
        """Forget the row."""
        row = self._prefix + name
        if self._store.get(row) is None:  # a run without a checkpoint never flushes: nothing may pile up
            self._changed.pop(row, None)
        else:
            self._changed[row] = None

    def rows(self) -> Iterator[str]:
        """Yield the names of all rows, in the order of when they were put (used once, at the start)."""
        stored = {name: at or 0.0 for name, at in self._store.deadlines() if name.startswith(self._prefix)}
        for name, found in self._changed.items():
            if name.startswith(self._prefix):
                stored.pop(name, None)
                if found is not None:
                    stored[name] = found[1]
        for name in sorted(stored, key=lambda one: (stored[one], one)):
            yield name[len(self._prefix) :]

    @property
    def changed(self) -> bool:
        """Whether there is something to flush."""
        return bool(self._changed)

    def flush(self) -> None:
        """Hand what changed to the store."""
        for name, found in self._changed.items():
            if found is None:
                self._store.drop(name)
            else:
                self._store.put(name, *found)
        self._changed.clear()
