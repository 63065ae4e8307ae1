"""Sessions that a decision ended. They stay ended, also after a restart."""

from __future__ import annotations

from typing import Final

from stream_guard.judge.counts import Counts
from stream_guard.judge.model import RESERVED
from stream_guard.judge.ports import ENDED_ROWS, CommittingStore
from stream_guard.judge.sketch import Sketch, sketch_number

_REASON: Final = 500  # characters of the reason that are kept
MOST: Final = 100_000
_FORGOTTEN: Final = f"{ENDED_ROWS}{RESERVED}"  # no session's id begins so
_PLACE: Final = 58  # the upper 6 bits of a number say in which of 64 sketches it is
_SKETCH_BYTES: Final = 2**14  # of a million forgotten ends, one session in 40 is taken for one of them
_LONG_AGO: Final = "a rule ended it, too long ago to say why"


class EndedSessions:
    """The ended sessions and their reasons, in a store and in memory.

    Beyond ``most``, the reason of the session that ended first is forgotten, and that it ended is not: it goes into a
    sketch, which may take a session for an ended one, and no ended one for another.
    """

    def __init__(self, store: CommittingStore, counts: Counts, most: int = MOST) -> None:
        self._store = store
        self._counts = counts
        self._most = most
        rows = [name for name, _ in store.deadlines() if name.startswith(ENDED_ROWS)]
        # By session, to read: the gate looks here at every check. ``end`` writes, always to this dictionary.
        self.reasons = {
            name[len(ENDED_ROWS) :]: (store.get(name) or b"").decode("utf-8", "replace")
            for name in rows
            if not name.startswith(_FORGOTTEN)
        }
        # In many sketches, so that the next end writes a small row.
        self._forgotten = {
            int(name[len(_FORGOTTEN) :]): Sketch(bytearray(store.get(name) or b""))
            for name in rows
            if name.startswith(_FORGOTTEN)
        }

    def __len__(self) -> int:
        return len(self.reasons)

    def reason(self, session_id: str) -> str | None:
        """Return why the session was ended, or None when it was not."""
        known = self.reasons.get(session_id)
        if known is None and self._forgotten:
            number = sketch_number(session_id)
            if number in self._forgotten.get(_sketch_of(number), ()):
                return _LONG_AGO
        return known

    def end(self, session_id: str, reason: str) -> None:
        """Record an end. It is durable after the store's next commit."""
        kept = reason[:_REASON]
        self.reasons[session_id] = kept
        self._store.put(ENDED_ROWS + session_id, kept.encode("utf-8", "replace"), None)
        while len(self.reasons) > self._most:
            self._forget(next(iter(self.reasons)))

    def _forget(self, session_id: str) -> None:
        del self.reasons[session_id]
        self._store.drop(ENDED_ROWS + session_id)
        self._counts.evictions["ended_sessions"] += 1
        number = sketch_number(session_id)
        place = _sketch_of(number)
        sketch = self._forgotten.setdefault(place, Sketch())
        sketch.add(number, _SKETCH_BYTES)
        self._store.put(f"{_FORGOTTEN}{place}", bytes(sketch.bits), None)


def _sketch_of(number: int) -> int:
    return number >> _PLACE
