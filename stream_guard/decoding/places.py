"""Places of events: the file and the line of the record that an event came in.

An event carries no place: a replay from another file must find the same. So the places of the latest events of each
session are remembered beside them, which is as long as a finding can be about an event.

An event may have waited for a later record. Then its decoder tells where its own record stood.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from stream_guard.decoding.selection import bucket_of
from stream_guard.errors import Place
from stream_guard.judge.model import Event, Finding
from stream_guard.ports import Record

_ENTRIES: Final = 3 * 32  # for the latest events of one session; up to twice as many are there
_OF_BUCKET: Final = 32  # sessions

_Noted: TypeAlias = list[Any]
"""Three entries for an event: its id, or itself as long as it has none, the file, the line."""


class RecordPlaces:
    """Remembers where the latest events of the latest sessions stand; with ``whole``, all of that one session.

    The latest are ``sessions`` of them, or else a number in each bucket: whom a bucket forgets does not depend on the
    others, so the places are the same however many processes share the sessions.
    """

    def __init__(self, *, whole: str | None = None, sessions: int | None = None) -> None:
        self._sessions = sessions
        self._buckets: dict[int, deque[str]] = {}
        self._whole = whole
        self._recent: dict[str, _Noted] = {}
        self.told: dict[tuple[str, str], tuple[str, int]] = {}  # by session and event: what decoders told

    def tell(self, event: Event, origin: str, line: int) -> None:
        """Take from a decoder where the record stood that brought an event, before the event is noted."""
        if self._whole in (None, event.session_id):
            self.told[event.session_id, event.event_id] = (origin, line)

    def forget_told(self) -> None:
        """Forget what was told of events that nobody noted: they were not selected."""
        self.told.clear()

    def note(self, record: Record | None, event: Event) -> None:
        """Remember where the event stands: where its decoder told, else where the record stands that brought it."""
        session_id, event_id = event.session_id, event.event_id
        if self._whole is not None and self._whole != session_id:
            return
        place = self.told.pop((session_id, event_id), None) if self.told else None
        if place is not None:
            file, line = place
        elif record is not None and record.line:
            file, line = record.origin, record.line
        else:
            return
        recent = self._recent.get(session_id)
        if recent is None:
            recent = self._recent[session_id] = []
            self._forget_for(session_id)
        elif len(recent) >= 2 * _ENTRIES and self._whole is None:
            del recent[:_ENTRIES]
        # An event without an id gets one when it is judged (``name``); of the others the id is enough.
        recent.extend((event_id if event_id and event_id[0] != "~" else event, file, line))

    def name(self, event: Event, event_id: str) -> None:
        """Take the id that an event got which came without one."""
        recent = self._recent.get(event.session_id, [])
        for at in range(len(recent) - 3, -1, -3):
            if recent[at] is event:
                recent[at] = event_id
                return

    def _forget_for(self, session_id: str) -> None:
        """Forget the session that was remembered first, when there is one too many with this one."""
        if self._sessions is not None:
            if len(self._recent) > self._sessions:
                del self._recent[next(iter(self._recent))]
            return
        bucket = self._buckets.setdefault(bucket_of(session_id.encode("utf-8", "surrogatepass")), deque())
        bucket.append(session_id)
        if len(bucket) > _OF_BUCKET:
            del self._recent[bucket.popleft()]

    def of(self, session_id: str, event_id: str) -> Place | None:
        """Return where the event of an id stands; a call inside a turn stands where the turn does."""
        recent = self._recent.get(session_id, [])
        first = 0 if self._whole is not None else max(0, len(recent) - _ENTRIES)
        for wanted in (event_id, event_id.rpartition("/")[0]):
            for at in range(len(recent) - 3, first - 1, -3):
                known, file, line = recent[at : at + 3]
                if wanted and wanted == (known if isinstance(known, str) else known.event_id):
                    return Place(file, line)
        return None

    def located(self, finding: Finding) -> Finding:
        """Return the finding with its file and line, where they are known."""
        place = self.of(finding.session_id, finding.event_id)
        return finding if place is None else replace(finding, file=place.file, line=place.line)
