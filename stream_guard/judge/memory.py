"""What a decoder remembers between records, stored together with the sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from stream_guard.judge.counts import Counts
from stream_guard.judge.model import RESERVED, Event
from stream_guard.judge.ports import DECODER_ROWS, Store

NoteOrigin: TypeAlias = Callable[[Event, str, int], None]


class DecoderMemory:
    """Rows of a decoder in the store of the sessions, under reserved names.

    Changes stay in memory until ``flush``. The table calls it after it has put the sessions into the store, so no
    row of a decoder is stored before the sessions that its events changed.
    """

    def __init__(
        self,
        store: Store,
        counts: Counts | None = None,
        part: str = "",
        changed: dict[str, tuple[bytes, float] | None] | None = None,
        origins: NoteOrigin | None = None,
    ) -> None:
        self._store = store
        self._counts = counts if counts is not None else Counts()
        self._prefix = f"{DECODER_ROWS}{part}"
        self._changed = {} if changed is None else changed  # None: drop the row
        self.origins = origins  # is told where events stood that may have waited

    def part(self, name: str) -> DecoderMemory:
        """Return a memory with names of its own inside this one."""
        inside = f"{self._prefix[len(DECODER_ROWS) :]}{name}{RESERVED}"
        return DecoderMemory(self._store, self._counts, inside, self._changed, self.origins)

    def count_orphans(self, spans: int) -> None:
        """Count spans that became events although a span around them has not come."""
        self._counts.orphan_spans += spans

    def note_origin(self, event: Event, origin: str, line: int) -> None:
        """Tell where the record stood that brought an event. It may have waited for a later record."""
        if self.origins is not None:
            self.origins(event, origin, line)

    def get(self, name: str) -> bytes | None:
        """Return what was put last, or None."""
        row = self._prefix + name
        if row in self._changed:
            found = self._changed[row]
            return None if found is None else found[0]
        return self._store.get(row)

    def put(self, name: str, blob: bytes, at: float) -> None:
        """Set a row; ``at`` orders the rows when they are listed."""
        self._changed[self._prefix + name] = (blob, at)

    def drop(self, name: str) -> None:
        """Forget the row."""
        row = self._prefix + name
        if self._store.get(row) is None:  # without a checkpoint there is no flush: drops must not pile up
            self._changed.pop(row, None)
        else:
            self._changed[row] = None

    def rows(self) -> Iterator[str]:
        """Yield the names of all rows in the order of their ``at``; used once, at the start."""
        stored = {name: at or 0.0 for name, at in self._store.deadlines() if name.startswith(self._prefix)}
        for name, found in self._changed.items():
            if name.startswith(self._prefix):
                stored.pop(name, None)
                if found is not None:
                    stored[name] = found[1]
        for name in sorted(stored, key=lambda row: (stored[row], row)):
            yield name[len(self._prefix) :]

    @property
    def changed(self) -> bool:
        """Whether there is something to flush."""
        return bool(self._changed)

    def flush(self) -> None:
        """Write the changes to the store."""
        for name, found in self._changed.items():
            if found is None:
                self._store.drop(name)
            else:
                self._store.put(name, *found)
        self._changed.clear()
