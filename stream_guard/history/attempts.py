"""Attempts, counted as the engine counts them: a call in a turn and the event that tells of it again are one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from stream_guard.judge.counts import Counts
from stream_guard.judge.fold import Engine
from stream_guard.judge.model import Event, SessionEnd, ToolResult
from stream_guard.judge.session import Session
from stream_guard.judge.spec import Policy
from stream_guard.judge.tracker import Tracker


class Attempted(NamedTuple):
    """What an event says of attempts."""

    tools: tuple[str, ...] = ()  # of the attempts that it is the first to tell of
    failed: str = ""  # the tool whose attempt it says has failed


class AttemptCounter:
    """Follows sessions as the engine does, without a rule; those that were not heard of for longest are dropped."""

    def __init__(self, most: int) -> None:
        self._counts = Counts()
        engine = Engine(Policy(rules=(), version=""), self._counts, mode="stream")
        self._tracker = Tracker(engine, self._counts, None)
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._most = most

    def knows(self, session_id: str) -> bool:
        """Whether a session is followed already."""
        return session_id in self._sessions

    def recall(self, session_id: str, events: Iterable[Event]) -> None:
        """Take a session up again: what these events tell of is not told of for the first time later."""
        for event in events:
            self.take(session_id, event)

    def take(self, session_id: str, event: Event) -> Attempted:
        """Follow a session by one event, and return what it says of attempts."""
        if isinstance(event, SessionEnd):
            self._sessions.pop(session_id, None)
            return Attempted()
        session = self._session(session_id)
        failed = _failed(event, session) if isinstance(event, ToolResult) and event.status != "ok" else ""
        self._counts.tools.clear()
        self._tracker.apply(event, session, [])
        return Attempted(tuple(tool for tool, number in self._counts.tools.items() for _ in range(number)), failed)

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = Session(session_id)
            if len(self._sessions) > self._most:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(session_id)
        return session


def _failed(result: ToolResult, session: Session) -> str:
    """Return the tool of a result that is not ok, from its call where the result does not name it."""
    opened = session.calls.find(result.call_id, result.tool)
    return result.tool or ("" if opened is None else opened.tool)
