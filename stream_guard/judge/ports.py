"""What the judge is given: a store for sessions and what decoders remember, and what judges of words have answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from stream_guard.judge.counts import Counts
from stream_guard.judge.model import RESERVED, Event

# Rows of a store that are no session: what other rooms keep beside the sessions, in the same commits.
ENDED_ROWS: Final = f"{RESERVED}ended{RESERVED}"
DECODER_ROWS: Final = f"{RESERVED}decoder{RESERVED}"
ALERT_ROWS: Final = f"{RESERVED}alert{RESERVED}"  # made by the states, and not told yet
PROGRESS_ROWS: Final = f"{RESERVED}progress{RESERVED}"  # how far what they were made of is read
NO_SESSIONS: Final = (ENDED_ROWS, DECODER_ROWS, ALERT_ROWS, PROGRESS_ROWS)

Done = TypeVar("Done")
NoteOrigin: TypeAlias = Callable[[Event, str, int], None]


class Store(Protocol):
    """Where sessions that are not in memory live; the blobs are opaque to it."""

    def get(self, session_id: str) -> bytes | None:
        """Return what was put last, or None."""

    def put(self, session_id: str, blob: bytes, deadline: float | None) -> None:
        """Keep the blob; ``deadline`` is when the session next wants to be woken."""

    def drop(self, session_id: str) -> None:
        """Forget the session."""

    def deadlines(self) -> Iterator[tuple[str, float | None]]:
        """Yield every session there is, with its deadline (used once, after a restart)."""


class CommittingStore(Store, Protocol):
    """A store that writes in commits."""

    @property
    def is_shared(self) -> bool:
        """Whether other processes read and write its rows: then nothing of them may be kept in memory."""

    def together(self, names: Iterable[str], work: Callable[[], Done]) -> Done:
        """Do some work while nobody else has these rows, and return when what it put is durable."""

    def alerts(self) -> list[bytes]:
        """Return the committed rows of ``ALERT_ROWS``."""

    def commit(self, meta: Mapping[str, bytes]) -> None:
        """Make what was put and dropped durable."""


class DecoderMemory:
    """What a decoder remembers between records: rows in the store of the sessions, under reserved names.

    Changes stay in memory until ``flush``. The judge calls it after it has put the sessions into the store, so no
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


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge said."""

    violated: bool | None  # None: it could not tell, and ``explanation`` says why; never a pass
    confidence: float
    explanation: str = ""
    tokens: int = 0
    cost_usd: float = 0.0
    is_counted: bool = False  # whether that is certainly all that it took; where not, a budget takes the worst case
    id: str = ""  # of an answer on record: which one it is
    retry_after: float | None = None  # seconds after which the same question may be answered; None: asking is of no use


class JudgeAnswers(Protocol):
    """What judges have answered. A judgement is a function of the events and of these, so a replay repeats it."""

    asks: bool  # whether questions without an answer are wanted: as findings that have an ``inquiry``

    def find(self, digest: str) -> Answer | None:
        """Return the recorded answer to an inquiry, by its digest, or None."""


class NoJudgeAnswers:
    """No judge was asked, and none will be."""

    asks = False

    def find(self, digest: str) -> Answer | None:
        """Return nothing."""
        del digest
        return None


NO_ANSWERS: Final[JudgeAnswers] = NoJudgeAnswers()
