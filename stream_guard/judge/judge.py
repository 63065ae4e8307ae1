"""The judge by itself: events in, findings out, and rows that whoever runs it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from stream_guard.judge.arguments import read_attempt
from stream_guard.judge.clock import SharedClock
from stream_guard.judge.counts import Counts
from stream_guard.judge.fold import Engine
from stream_guard.judge.limits import Limits
from stream_guard.judge.model import RESERVED, Event, Finding, SessionEnd, ToolCall
from stream_guard.judge.objections import Objection
from stream_guard.judge.ports import NO_ANSWERS, JudgeAnswers
from stream_guard.judge.rule import Mode
from stream_guard.judge.spec import Policy
from stream_guard.judge.table import SessionTable

_CLOCK: Final = f"{RESERVED}clock{RESERVED}"

Row: TypeAlias = tuple[str, bytes | None, float | None]
"""The name of a row, its bytes, and when it is to be looked at; no bytes: it is to be deleted."""


class Judged(NamedTuple):
    """What came of one event, or of one question."""

    findings: list[Finding]
    counted: ToolCall | None = None  # the attempt that a call was counted as, where it was counted
    objections: tuple[Objection, ...] = ()  # what rules have against an attempt that was asked about


class Judge:
    """Judges events by one policy. It knows no file, thread, socket or clock: time is that of the events.

    >>> judge = Judge(policy, mode="stream")  # doctest: +SKIP
    >>> judge.feed(event).findings  # doctest: +SKIP
    """

    def __init__(
        self,
        policy: Policy,
        limits: Limits | None = None,
        *,
        mode: Mode = "batch",
        counts: Counts | None = None,
        clock: SharedClock | None = None,
        answers: JudgeAnswers = NO_ANSWERS,
    ) -> None:
        self.counts = counts if counts is not None else Counts()
        self._limits, self._mode, self._clock = limits or Limits(), mode, clock
        self._rows = _Rows()
        most = self._limits.max_states
        self._engine = Engine(policy, self.counts, mode=mode, max_states=most, answers=answers)
        self._open()

    def _open(self) -> None:
        self._table = SessionTable(
            self._engine,
            self._rows,
            self.counts,
            self._limits,
            shared_clock=self._mode == "stream",
            clock=self._clock,
        )

    def feed(self, event: Event) -> Judged:
        """Judge one event, in the order in which it came."""
        found: list[Finding] = []
        counted = self._table.feed(event, found)
        return Judged(found, counted.call if counted is not None else None)

    def ask(self, attempt: ToolCall) -> Judged:
        """Judge one question about an attempt, before its tool runs."""
        found: list[Finding] = []
        counted = self._table.ask(replace(read_attempt(attempt), asked=True), found)
        return Judged(found, counted.call, counted.opened.objections or ())

    def advance(self, time: float) -> list[Finding]:
        """Judge what has passed by a time without an event: deadlines, and the ends of silent sessions."""
        found: list[Finding] = []
        self._table.advance(time, found)
        return found

    def end(self, session: str | None = None) -> list[Finding]:
        """Judge the end of one session, or of all that are open: no more events will come."""
        found: list[Finding] = []
        if session is None:
            self._table.end_all(found)
        else:
            self._table.feed_now(SessionEnd(session_id=session), found)
        return found

    def changes(self) -> list[Row]:
        """Return the rows to write since the last call, so that a judge that loads all rows goes on with them."""
        self._table.commit()
        clock: Row = (_CLOCK, repr(self._table.watermark).encode(), None)
        return [*self._rows.take_changes(), clock]

    def load(self, rows: Iterable[Row]) -> None:
        """Go on with the rows that another judge returned as changes."""
        watermark = self._table.watermark
        for name, blob, deadline in rows:
            if name == _CLOCK and blob is not None:
                watermark = float(blob)
            elif blob is None:
                self._rows.drop(name)
            else:
                self._rows.put(name, blob, deadline)
        self._rows.take_changes()
        self.counts.sessions = 0
        self._open()
        self._table.watermark = watermark

    def use(self, policy: Policy) -> None:
        """Judge by another policy from here on. Rules that did not change keep their states."""
        most = self._limits.max_states
        self._engine = Engine(policy, self.counts, mode=self._mode, max_states=most, answers=self._engine.answers)
        self._table.use(self._engine)


class _Rows:
    """Rows in memory, and which of them have changed."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[bytes, float | None]] = {}
        self._changed: dict[str, None] = {}

    def get(self, name: str) -> bytes | None:
        row = self._rows.get(name)
        return None if row is None else row[0]

    def put(self, name: str, blob: bytes, deadline: float | None) -> None:
        self._rows[name] = (blob, deadline)
        self._changed[name] = None

    def drop(self, name: str) -> None:
        self._rows.pop(name, None)
        self._changed[name] = None

    def deadlines(self) -> Iterator[tuple[str, float | None]]:
        for name, (_, deadline) in list(self._rows.items()):
            yield name, deadline

    def take_changes(self) -> list[Row]:
        changed, self._changed = self._changed, {}
        return [(name, *self._rows.get(name, (None, None))) for name in changed]
