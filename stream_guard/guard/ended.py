"""Sessions that a decision ended. They stay ended, also after a restart."""

from __future__ import annotations

from math import inf
from typing import Final

from stream_guard.judge.counts import Counts
from stream_guard.judge.forgotten import Sketch, sketch_number
from stream_guard.judge.model import RESERVED
from stream_guard.judge.ports import ENDED_ROWS, CommittingStore

_REASON: Final = 500  # characters of the reason that are kept
MOST: Final = 100_000
KEPT: Final = 365 * 86_400.0
_FORGOTTEN: Final = f"{ENDED_ROWS}{RESERVED}"  # no session's id begins so
_PLACE: Final = 58  # the upper 6 bits of a number say in which of 64 sketches it is
_SKETCH_BYTES: Final = 2**14  # of a million forgotten ends, one session in 40 is taken for one of them
_LONG_AGO: Final = "a rule ended it, too long ago to say why"


class EndedSessions:
    """The ended sessions and their reasons, in a store and in memory; of a shared store, nothing is in memory.

    A session is ended for ``keep`` seconds after its last attempt; None: for ever. Beyond ``most``, the reason of the
    session that tried last longest ago is forgotten, and that it ended is not: it goes into a sketch, which may take a
    session for an ended one, and no ended one for another. A shared store has as many rows as there are.
    """

    def __init__(self, store: CommittingStore, counts: Counts, most: int = MOST, keep: float | None = KEPT) -> None:
        self._store = store
        self._counts = counts
        self._most = most
        self._keep = keep
        rows = [(name, until) for name, until in store.deadlines() if name.startswith(ENDED_ROWS)]
        # Until when, and why; in the order of the last attempts.
        self._ended: dict[str, tuple[float, str]] = {}
        for name, until in sorted(rows, key=lambda row: inf if row[1] is None else row[1]):
            if not name.startswith(_FORGOTTEN):
                self._ended[name[len(ENDED_ROWS) :]] = (inf if until is None else until, _text(store.get(name)))
        # In many sketches, so that the next end writes a small row.
        self._forgotten = {
            int(name[len(_FORGOTTEN) :]): Sketch(bytearray(store.get(name) or b""))
            for name, _ in rows
            if name.startswith(_FORGOTTEN)
        }
        self.are_some = store.is_shared or bool(rows)  # to read: the gate looks here at every check

    def __len__(self) -> int:
        return len(self._ended)

    def row_of(self, session_id: str) -> str:
        """Return the name of the row that says that a session has ended."""
        return ENDED_ROWS + session_id

    def reason(self, session_id: str, now: float | None = None) -> str | None:
        """Return why the session was ended, or None when it was not, or too long ago.

        Of a shared store it is what others wrote: the row is locked.
        """
        if self._store.is_shared:
            row = self._store.get(ENDED_ROWS + session_id)
            return None if row is None else _text(row)
        until, known = self._ended.get(session_id, (-inf, None))
        if known is not None and now is not None and until <= now:
            return None
        if known is None and self._forgotten:
            number = sketch_number(session_id)
            if number in self._forgotten.get(_sketch_of(number), ()):
                return _LONG_AGO
        return known

    def end(self, session_id: str, reason: str, now: float | None = None) -> None:
        """Record an end, or one more attempt behind it. It is durable after the store's next commit."""
        if reason == _LONG_AGO:  # a sketch has it, and never forgets
            return
        kept = reason[:_REASON]
        self.are_some = True
        until = None if self._keep is None or now is None else now + self._keep
        self._store.put(ENDED_ROWS + session_id, kept.encode("utf-8", "replace"), until)
        if self._store.is_shared:
            return
        self._ended.pop(session_id, None)
        self._ended[session_id] = (inf if until is None else until, kept)
        while now is not None and self._ended[first := next(iter(self._ended))][0] <= now:
            del self._ended[first]
            self._store.drop(ENDED_ROWS + first)
        while len(self._ended) > self._most:
            self._forget(next(iter(self._ended)))

    def _forget(self, session_id: str) -> None:
        del self._ended[session_id]
        self._store.drop(ENDED_ROWS + session_id)
        self._counts.evictions["ended_sessions"] += 1
        number = sketch_number(session_id)
        place = _sketch_of(number)
        sketch = self._forgotten.setdefault(place, Sketch())
        sketch.add(number, _SKETCH_BYTES)
        self._store.put(f"{_FORGOTTEN}{place}", bytes(sketch.bits), None)


def _sketch_of(number: int) -> int:
    return number >> _PLACE


def _text(row: bytes | None) -> str:
    return (row or b"").decode("utf-8", "replace")
