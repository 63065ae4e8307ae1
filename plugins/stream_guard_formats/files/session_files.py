"""Session files of coding agents: the lines of a file belong to one session, which a line or the file's name tells."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from copy import copy
from pathlib import PurePath
from typing import Any, Final, Self

import msgspec

from stream_guard import Event, Json, JsonDecoder, Memory, Record
from stream_guard_formats.conversation import MAX_ID, Conversation, derived_session, label
from stream_guard_formats.reading import SkippedLines, as_object, digest, number_in, seconds

_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MOST_FILES: Final = 4096  # that are read at the same time
_MOST_ASKED: Final = 256  # calls of one file that were asked for and have not begun


class SessionProgress(msgspec.Struct, omit_defaults=True):
    """What the lines of one file have said so far that later lines leave out."""

    session_id: str = ""
    model: str = ""
    agents: dict[str, str] = {}  # names of sub-agents, by their run
    asked: dict[str, int] = {}  # how often a call was asked for and has not begun, by its id

    def state(self) -> tuple[str, str, int, int]:
        """Return what differs when there is something new to store."""
        return self.session_id, self.model, len(self.agents), hash(tuple(self.asked.items()))

    def ask(self, call_id: str) -> None:
        """Note that an answer asked for a call. An id may come again for another call."""
        self.asked[call_id] = self.asked.pop(call_id, 0) + 1
        while len(self.asked) > _MOST_ASKED:
            del self.asked[next(iter(self.asked))]

    def begin(self, call_id: str) -> bool:
        """Note that a call begins. Return whether it was asked for."""
        left = self.asked.pop(call_id, 0) - 1
        if left > 0:
            self.asked[call_id] = left
        return left >= 0


class SessionFileDecoder(JsonDecoder):
    """The base of a decoder of session files. A subclass writes ``tell``, and ``learn`` where lines name the session.

    A line of a sort that the format does not have is skipped and counted; ``finish`` logs the counts. What a restart
    needs to know of a file is kept in the memory.
    """

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self.skipped = SkippedLines()
        self._files: OrderedDict[str, SessionProgress] = OrderedDict()
        self._memory: Memory | None = None

    @property
    def waits(self) -> bool:
        """Whether it may hold events back, or keeps what it learnt of a file."""
        return True

    def remember(self, memory: Memory) -> Self:
        """Return a copy that keeps what it learns of files in ``memory``."""
        holding = copy(self)
        holding._memory = memory  # noqa: SLF001  # of its own class
        holding._files = OrderedDict(  # noqa: SLF001
            (name, msgspec.msgpack.decode(blob, type=SessionProgress))
            for name in memory.rows()
            if (blob := memory.get(name)) is not None
        )
        return holding

    def finish(self) -> Sequence[Event]:
        """Log which lines were skipped. No further record will come."""
        self.skipped.log()
        return ()

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return the events of the line. Lines about the program itself have none."""
        line = as_object(data, "a line of a session file")
        name = digest(record.key or record.origin.encode("utf-8", "surrogatepass"))
        progress = self._files.get(name)
        if progress is None:
            progress = self._files[name] = SessionProgress(session_id=self.session_of(record))
        before = progress.state()
        self.learn(line, progress)
        conversation = Conversation(
            progress.session_id, labels={"model": label(progress.model)} if progress.model else None
        )
        self.tell(line, conversation, progress, record)
        if len(self._files) > _MOST_FILES:
            oldest, _ = self._files.popitem(last=False)
            if self._memory is not None:
                self._memory.drop(oldest)
        if self._memory is not None and progress.state() != before:
            self._memory.put(name, msgspec.msgpack.encode(progress), 0.0)
        return conversation.events

    def session_of(self, record: Record) -> str:
        """Return the session of a file whose lines do not name it: an id in its path, or one made from the path."""
        path = PurePath(record.origin)
        for part in reversed(path.parts):
            if found := _UUID.search(part):
                return found[0]
        return derived_session(record.key or record.origin.encode("utf-8", "surrogatepass"), path.stem)

    def learn(self, line: dict[str, Json], progress: SessionProgress) -> None:
        """Note what a line says about the session as a whole."""

    @abstractmethod
    def tell(
        self, line: dict[str, Json], conversation: Conversation, progress: SessionProgress, record: Record
    ) -> None:
        """Add the events of a line, or have it skipped."""


def named_session(progress: SessionProgress, session_id: str) -> None:
    """Take a session's id over from a line, if it has one."""
    if session_id:
        progress.session_id = session_id[:MAX_ID]


def moment(written: Json) -> float | None:
    """Return a time as seconds since 1970: an ISO 8601 text, or a number of seconds or milliseconds."""
    if isinstance(written, str) and (found := seconds(written)) is not None:
        return found
    number = number_in(written)
    if number is None or number < 0.0:
        return None
    number = number / 1000.0 if number >= 1e11 else number
    return number if number < 1e11 else None


def at_place(event_id: Json, sort: str, record: Record) -> dict[str, Any]:
    """Return the id of an event: the line's own, or the line's place."""
    own = event_id if isinstance(event_id, str) else ""
    return {"event_id": f"{own[:200]}{sort}" if own else f"{sort}{record.position}"}
