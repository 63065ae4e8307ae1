"""The sessions that are kept: which are in memory, which are stored, which rest, and when each is to be looked at."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice
from math import inf
from typing import Final

from stream_guard.judge.counts import Counts
from stream_guard.judge.findings import unwritable_finding
from stream_guard.judge.fold import Engine
from stream_guard.judge.forgotten import ForgottenSessions, is_forgotten_row
from stream_guard.judge.identity import TENANT, escape_tenant, share_of
from stream_guard.judge.limits import NO_LIMIT, Limits
from stream_guard.judge.model import Event, Finding
from stream_guard.judge.ports import NO_SESSIONS, Store
from stream_guard.judge.rows import is_remembered, pack, unpack
from stream_guard.judge.session import Life, Session

_SPARE: Final = 16  # the part of the in-memory limit that is made free at a time


class Deadlines:
    """The next deadline of each session, the earliest first; of the same time, in the order of the ids."""

    __slots__ = ("_heap", "_next")

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []  # with some that earlier ones have taken the place of
        self._next: dict[str, float] = {}

    def first(self) -> float:
        """Return the earliest deadline; infinity when there is none."""
        heap = self._heap
        while heap and self._next.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else inf

    def push(self, deadline: float, session_id: str) -> None:
        """Let a session have this deadline, unless it has an earlier one."""
        if deadline < self._next.get(session_id, inf):
            self._next[session_id] = deadline
            heapq.heappush(self._heap, (deadline, session_id))

    def pop(self, until: float = inf) -> str | None:
        """Take the earliest deadline away and return whose it was; None when it is after ``until``."""
        if self.first() > until or not self._heap:
            return None
        session_id = heapq.heappop(self._heap)[1]
        del self._next[session_id]
        return session_id

    def bring_forward(self, seconds: float) -> None:
        """Let all deadlines be that much earlier."""
        self._next = {session_id: deadline - seconds for session_id, deadline in self._next.items()}
        self._heap = [(deadline, session_id) for session_id, deadline in self._next.items()]
        heapq.heapify(self._heap)


class TenantShares:
    """The ids of all sessions that are kept, by tenant, those that came first in front."""

    __slots__ = ("_by_size", "_ids", "_most")

    def __init__(self) -> None:
        self._ids: dict[str, dict[str, None]] = {}
        # Tenants by how many sessions they have, so that the largest is found at once, however many there are.
        self._by_size: dict[int, dict[str, None]] = {0: {}}
        self._most = 0

    def add(self, key_id: str, event: Event | None = None) -> None:
        """Count a session to its tenant's share. An event that does not name the tenant of its id has none."""
        share = share_of(key_id)
        if share and event is not None and escape_tenant(event.labels.get(TENANT, "")) != share:
            share = ""
        ids = self._ids.setdefault(share, {})
        ids[key_id] = None
        self._resize(share, len(ids) - 1, len(ids))

    def remove(self, key_id: str) -> None:
        """Count a session no longer."""
        for share in (share_of(key_id), ""):
            ids = self._ids.get(share)
            if ids is not None and key_id in ids:
                del ids[key_id]
                self._resize(share, len(ids) + 1, len(ids))
                if not ids:
                    del self._ids[share]
                return

    def largest(self, newest: str) -> Iterator[str]:
        """Yield the ids of the tenant that has the most sessions; of two alike, of that which brings the newest."""
        alike, own = self._by_size[self._most], share_of(newest)
        yield from self._ids.get(own if own in alike else next(iter(alike), ""), ())

    def _resize(self, share: str, before: int, after: int) -> None:
        if before:
            del self._by_size[before][share]
        if after:
            self._by_size.setdefault(after, {})[share] = None
        self._most = max(self._most, after)
        while self._most and not self._by_size[self._most]:
            del self._by_size[self._most]
            self._most -= 1


class KeptSessions:
    """Loads, stores and forgets sessions, and knows their deadlines. It judges nothing."""

    def __init__(self, engine: Engine, store: Store, counts: Counts, limits: Limits) -> None:
        self.store = store
        self._is_shared = False
        self._counts = counts
        self._limits = limits
        self._max_live = limits.max_live  # kept here: settings are slow to ask
        self._engine = engine
        self._idle = engine.policy.idle
        self.touched: dict[str, Session] = {}  # changed since the last commit
        self.clean: dict[str, Session] = {}  # unpacked, and unchanged since they were stored
        self.resting: dict[str, None] = {}  # closed and kept, the first one first; not counted as open
        self.deadlines = Deadlines()
        self.unwritable: list[Finding] = []  # that sessions were closed because no row can hold them; to be told
        # Nobody is evicted where there is no limit, so nobody's share matters.
        self.shares = TenantShares() if engine.policy.by_tenant and limits.max_live < NO_LIMIT else None
        self.forgotten = ForgottenSessions(store)
        for session_id, deadline in store.deadlines():
            if not _is_session(session_id):
                continue
            counts.sessions += 1
            if self.shares is not None:
                self.shares.add(session_id)
            if deadline is not None:
                self.deadlines.push(deadline, session_id)
        self.next_due = self.deadlines.first()

    def leave(self) -> None:
        """Count the open sessions no longer: others may count theirs in the same place."""
        self._counts.sessions -= len(self.ids()) - len(self.resting)

    def use(self, engine: Engine) -> None:
        """Switch to another policy. Sessions are packed under the old one, and unpacked later under the new."""
        for session in list(self.touched.values()):
            self._put(session)
        self.touched.clear()
        self.clean.clear()
        sooner = max(0.0, self._idle - engine.policy.idle)
        if sooner:  # a shorter idle time ends sessions before their scheduled deadlines
            self.deadlines.bring_forward(sooner)
            self.next_due -= sooner
        self._engine = engine
        self._idle = engine.policy.idle

    def load(self, session_id: str, event: Event | None = None) -> Session:
        """Return the session of an id, from memory or the store, or else a new one; it counts as changed.

        A new one that the event goes on with is marked as cut if it was forgotten, or its row cannot be read.
        """
        session = self.clean.pop(session_id, None)
        if session is None:
            blob = self.store.get(session_id)
            if blob is not None:
                session = unpack(session_id, blob, self._engine, self._counts, keep_strangers=self._is_shared)
            if session is not None and session.resting and session_id not in self.resting:
                self.resting[session_id] = None  # an earlier run closed it
                self._counts.sessions -= 1
            if session is None:
                session = Session(session_id)
                if blob is not None:
                    session.cut = self._engine.lasting
                else:
                    self._counts.sessions += 1
                    if self.shares is not None:
                        self.shares.add(session_id, event)
                    if self.forgotten and event is not None and self._is_forgotten(session_id, event):
                        session.cut = self._engine.lasting
        self.touched[session_id] = session
        return session

    def share(self) -> None:
        """Keep in rows what other processes need that judge by them, maybe under another policy."""
        self._is_shared = True

    def find(self, session_id: str) -> Session | None:
        """Return a live session from memory or from the store, or None when there is none of that id."""
        session = self.touched.get(session_id) or self.clean.get(session_id)
        if session is None and self.store.get(session_id) is not None:
            session = self.load(session_id)
        return session

    def find_surplus(self, needed: tuple[str, str]) -> Session | None:
        """Return the session to close for want of room: of the tenant that has the most, the one idle for longest.

        It is closed, if any is. On a stream deadlines tell which is the longest; elsewhere it was loaded first.
        """
        if self.shares is not None:
            named = next((name for name in self.shares.largest(needed[0]) if name not in needed), None)
            return None if named is None else self.find(named)
        for session_id in self.resting:
            if session_id not in needed and (resting := self.find(session_id)) is not None:
                return resting
        while (due := self.deadlines.first()) < inf and (name := self.deadlines.pop()) is not None:
            oldest = self.find(name)
            if oldest is None:
                continue  # it has ended since
            oldest.scheduled = inf
            if self.deadline(oldest) > due:  # it has gone on since
                self.schedule(oldest)
            elif name not in needed:
                return oldest
        return self._first_loaded(needed)

    def _first_loaded(self, needed: tuple[str, str]) -> Session | None:
        # Loops, not next() of a generator expression: compiled, that is a list and no iterator.
        for held in (self.clean, self.touched):
            for session in held.values():
                if session.id not in needed and not session.resting:
                    return session
        return None

    def is_crowded(self) -> bool:
        """Whether more sessions are kept than may be."""
        return self._counts.sessions + len(self.resting) > self._max_live

    def rest(self, session: Session, *, ended: bool = False) -> None:
        """Keep a closed session for as long as it may still go on."""
        # Its deadline is later now than the one it has, and is looked at then.
        session.life = Life.ENDED if ended else Life.RESTING
        self.resting[session.id] = None
        self._counts.sessions -= 1

    def drop(self, session: Session) -> None:
        """Forget a session."""
        session_id = session.id
        # Asked and deleted: compiled, pop() with a default is a call by name.
        if session_id in self.touched:
            del self.touched[session_id]
        if session_id in self.clean:
            del self.clean[session_id]
        self.store.drop(session_id)
        if self.shares is not None:
            self.shares.remove(session_id)
        if session.resting:
            self.resting.pop(session_id, None)
        else:
            self._counts.sessions -= 1

    def forget(self, session: Session) -> None:
        """Forget a session for want of room; that it was there is kept where a rule that stops remembers some of it."""
        if is_remembered(session, self._engine):
            self.forgotten.add(self._share_of(session.id), session.id, session.now)
        self.drop(session)

    def expire_forgotten(self, now: float) -> None:
        """Let forgotten sessions that were silent for longer than any rule looks back be like any other from now on."""
        longest = max([self._idle, *[group.memory for group in self._engine.cross_session]])
        self.forgotten.expired = now - longest

    def _is_forgotten(self, session_id: str, event: Event) -> bool:
        idle = self._engine.idle_of(session_id)
        return self.forgotten.has(self._share_of(session_id), session_id, event.time, idle)

    def _share_of(self, session_id: str) -> str:
        return "" if self.shares is None else share_of(session_id)

    def schedule(self, session: Session) -> None:
        """See to it that the session is looked at when its next deadline has passed."""
        deadline = self.deadline(session)
        if deadline < session.scheduled:
            session.scheduled = deadline
            self.deadlines.push(deadline, session.id)  # one that was read from the store has its own there already
            self.next_due = min(self.next_due, deadline)

    def deadline(self, session: Session) -> float:
        """Return the next deadline of the session, on the stream's clock; infinity when there is none."""
        idle = self._engine.idle_of(session.id)
        deadline = inf if session.now == -inf else session.now + idle
        if session.resting and session.earlier is not None:
            return self.deadline(session.earlier)  # it rests for as long as that is there
        if session.resting:
            return deadline + session.lag + (idle if session.life is Life.RESTING else 0.0)
        if session.timers:
            # What a late event made due before the clock waits for the session's own events.
            deadline = min([deadline, *[timer for timer in session.timers.values() if timer > session.now]])
        if session.waiting is not None and session.waiting.events:
            first = session.waiting.first  # which ends it, where it comes after its idle time
            deadline = first if deadline == session.now + idle else min(deadline, first)
        deadline += session.lag
        return deadline if session.earlier is None else min(deadline, self.deadline(session.earlier))

    def ids(self) -> list[str]:
        """Return the ids of all sessions, in memory and stored."""
        known = {*self.touched, *self.clean}
        stored = [row for row, _ in self.store.deadlines() if row not in known]
        return [*known, *filter(_is_session, stored)]

    def _packed(self, session: Session) -> bytes:
        """Return the session as it is stored, with less of its last event and open calls where that is too large."""
        blob, most = pack(session, self._engine), self._limits.max_session_bytes
        if len(blob) > most:
            session.shorten_last()
            blob = pack(session, self._engine)
        while len(blob) > most and session.calls.count:
            self._counts.evictions["open_calls"] += session.calls.drop_older_half()
            blob = pack(session, self._engine)
        return blob

    def _put(self, session: Session) -> None:
        due = self._due(session)
        try:
            blob = self._packed(session)
            why = "" if len(blob) <= self._limits.max_session_bytes else f"its row has {len(blob)} bytes"
        except Exception as error:  # noqa: BLE001  # whatever an in-process caller passed: the others go on
            blob, why = b"", f"writing it raised {type(error).__name__}"
        if why:
            self._give_up(session, why)
            return
        self.store.put(session.id, blob, due)

    def _give_up(self, session: Session, why: str) -> None:
        """Close a session that cannot be written. What rules that stop knew of it is unevaluable if it comes back."""
        self._counts.evictions["session_bytes"] += 1
        self.unwritable.append(unwritable_finding(session, why))
        if not self._is_shared:
            self.forget(session)
            return
        # Another gate may be asked next, and it finds only what stands under the session's own name.
        left = self.touched[session.id] = session.without_states()
        if is_remembered(session, self._engine):
            left.cut = self._engine.lasting
        self.store.put(left.id, pack(left, self._engine), self._due(left))

    def _due(self, session: Session) -> float | None:
        """Return when the stored session is to be looked at, or, where others share it, when it is over."""
        if not self._is_shared:
            deadline = self.deadline(session)
            return deadline if deadline < inf else None
        # Nobody looks at it for its timers, and what is over may be deleted.
        idle = max(self._engine.idle_of(session.id), session.strangers.idle)
        return None if session.now == -inf else session.now + idle

    def put_all(self) -> None:
        """Put every changed session into the store, and drop unpacked sessions beyond the in-memory limit."""
        for session in list(self.touched.values()):
            self._put(session)
        self.clean.update(self.touched)
        self.touched.clear()
        self.forgotten.flush()
        self._leave_clean(len(self.clean) - self._limits.in_memory)

    def drop_memory(self) -> None:
        """Forget the sessions in memory, changed ones too."""
        self.touched.clear()
        self.clean.clear()

    def find_idle(self, now: float, *, stored: bool) -> list[Session]:
        """Return the sessions that were silent for so long that no event goes on with them, as on a stream."""
        if stored:
            due = [row for row, time in self.store.deadlines() if time is not None and self._was_idle(row, time, now)]
            for row in filter(_is_session, due):
                if row not in self.touched:
                    self.load(row)
        known = [*self.clean.values(), *self.touched.values()]
        return [one for one in known if self._was_idle(one.id, one.now + self._engine.idle_of(one.id), now)]

    def _was_idle(self, row: str, over: float, now: float) -> bool:
        """Whether a session is forgotten that was over at a time: a late event goes on with it for as long again."""
        return -inf < over <= now - self._engine.idle_of(row)

    def make_room(self) -> None:
        """Put the sessions that were loaded first into the store when more are in memory than the limit allows."""
        most = self._limits.in_memory
        surplus = len(self.clean) + len(self.touched) - most
        if surplus > 0:
            surplus += most // _SPARE  # or each new session would be one too many
            surplus -= self._leave_clean(surplus)
            for session_id in list(islice(self.touched, surplus)):
                self._put(self.touched[session_id])
                self.touched.pop(session_id, None)

    def _leave_clean(self, surplus: int) -> int:
        """Drop so many unpacked sessions that are stored as they are, and return how many that were."""
        leaving = list(islice(self.clean, max(0, surplus)))
        for session_id in leaving:
            del self.clean[session_id]
        return len(leaving)


def _is_session(row: str) -> bool:
    """Whether a row of a store is a session, or a value of a key."""
    return not (row.startswith(NO_SESSIONS) or is_forgotten_row(row))
