"""What the judge is given: a store for sessions that are not in memory, and what judges of words have answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeVar

import msgspec

from stream_guard.judge.model import RESERVED

# Rows of a store that are no session: what other rooms keep beside the sessions, in the same commits.
ENDED_ROWS: Final = f"{RESERVED}ended{RESERVED}"
DECODER_ROWS: Final = f"{RESERVED}decoder{RESERVED}"
ALERT_ROWS: Final = f"{RESERVED}alert{RESERVED}"  # made by the states, and not told yet
PROGRESS_ROWS: Final = f"{RESERVED}progress{RESERVED}"  # how far what they were made of is read
NO_SESSIONS: Final = (ENDED_ROWS, DECODER_ROWS, ALERT_ROWS, PROGRESS_ROWS)

Done = TypeVar("Done")


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
