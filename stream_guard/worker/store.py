"""The store of one partition's sessions, kept in the worker's table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from stream_guard.errors import StoreError
from stream_guard.worker.rows import (
    SESSIONS,
    VERSION,
    Offsets,
    ProgressRow,
    Sender,
    SessionRow,
    decode_progress,
    decode_session,
    encode_row,
    latest,
    progress_key,
    session_key,
    session_of,
    session_prefix,
)

Change: TypeAlias = tuple[bytes, bytes | None]
"""A key of the table and its new value; None takes the key back."""


class PartitionStore:
    """Reads a partition's rows and gathers what is to be changed; whoever owns the table writes it.

    ``rows`` is the table as it was recovered, all partitions in one mapping. ``seal`` returns the changes in
    the order in which they must be written: the partition's own row stands last, and proves the others. The
    next seal relies on that: the changes of the last one are in ``rows`` by then, and on the broker. Until then
    sessions are read as they were sealed.
    """

    def __init__(self, partition: int, rows: Mapping[bytes, bytes], family: int = SESSIONS) -> None:
        self.number = partition
        self._family = family
        self._rows = rows
        self._pending: dict[bytes, tuple[bytes, float | None]] = {}  # an empty state: the session has ended
        self._sealing: dict[bytes, tuple[bytes, float | None]] = {}  # of the last seal: may not be in the rows yet
        self._ended: dict[bytes, Offsets] = {}  # sessions that have ended, and up to where their rows say it
        self.progress = self._read_progress()
        self.applied: Offsets = {} if self.progress is None else dict(self.progress.applied)
        self.origins: Offsets = {} if self.progress is None else dict(self.progress.origins)
        self.senders: dict[int, Sender] = {} if self.progress is None else dict(self.progress.senders)
        self.extra_rows: dict[bytes, bytes | None] = {}  # other rows to write, behind the sessions'
        self._sealed: Offsets = dict(self.applied)
        self.horizon: Offsets = {}  # beyond these no session is ahead of the partition
        self._look_through()

    def get(self, session_id: str) -> bytes | None:
        """Return the state that was put last, or None."""
        key = session_key(self.number, session_id, self._family)
        pending = self._pending.get(key) or self._sealing.get(key)
        if pending is not None:
            return pending[0] or None
        row = self._rows.get(key)
        return None if row is None else self._read(row).state or None

    def put(self, session_id: str, blob: bytes, deadline: float | None) -> None:
        """Keep the state with the next seal."""
        self._pending[session_key(self.number, session_id, self._family)] = (blob, deadline)

    def drop(self, session_id: str) -> None:
        """End the session with the next seal; also one that was begun since, because its events were applied."""
        self._pending[session_key(self.number, session_id, self._family)] = (b"", None)

    def deadlines(self) -> Iterator[tuple[str, float | None]]:
        """Yield every session there is, with its deadline."""
        prefix = session_prefix(self.number, self._family)
        for key, raw in self._rows.items():
            if key.startswith(prefix) and key not in self._pending and (row := self._read(raw)).state:
                yield session_of(key), row.deadline
        for key, (state, deadline) in self._pending.items():
            if state:
                yield session_of(key), deadline

    def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the rows whose keys begin so, as they were recovered."""
        return [(key, value) for key, value in self._rows.items() if key.startswith(prefix)]

    def has_applied(self, session_id: str, tag: int, offset: int) -> bool:
        """Whether the session contains the event of an offset that the partition as a whole has not passed."""
        if offset > self.horizon.get(tag, -1):
            return False
        row = self._rows.get(session_key(self.number, session_id, self._family))
        return row is not None and offset <= self._read(row).applied.get(tag, -1)

    @property
    def changed(self) -> bool:
        """Whether a seal would write more than the partition's own row."""
        return bool(self._pending)

    def seal(self, watermark: float | None, wall: float) -> list[Change]:
        """Return the changes since the last seal, to be written in this order, all of them."""
        ahead = not _covers(self.applied, self.horizon)
        changes: list[Change] = [(key, None) for key in self._take_back()]
        self._sealed = dict(self.applied)
        for key, (state, deadline) in self._pending.items():
            applied = self._stamp(key) if ahead else self._sealed
            changes.append((key, encode_row(SessionRow(VERSION, applied, deadline, state))))
            if not state:
                self._ended[key] = applied
        self._pending, self._sealing = {}, self._pending
        changes += self.extra_rows.items()
        self.extra_rows.clear()
        progress = ProgressRow(VERSION, self._sealed, watermark, wall, self.origins, self.senders)
        changes.append((progress_key(self.number, self._family), encode_row(progress)))
        return changes

    def _take_back(self) -> list[bytes]:
        """Return the rows of ended sessions that no crash can need: what was sealed before says all they say."""
        for key in self._ended.keys() & self._pending.keys():
            del self._ended[key]  # opened anew
        passed = [key for key, applied in self._ended.items() if _covers(self._sealed, applied)]
        for key in passed:
            del self._ended[key]
        return passed

    def _stamp(self, key: bytes) -> Offsets:
        """Return up to where a session's events are in it; never less than its row said before."""
        row = self._rows.get(key)
        return self._sealed if row is None else latest(self._sealed, self._read(row).applied)

    def _look_through(self) -> None:
        prefix = session_prefix(self.number, self._family)
        for key, raw in self._rows.items():
            if key.startswith(prefix):
                row = self._read(raw)
                self.horizon = latest(self.horizon, row.applied)
                if not row.state:
                    self._ended[key] = row.applied

    def _read_progress(self) -> ProgressRow | None:
        raw = self._rows.get(progress_key(self.number, self._family))
        if raw is None:
            return None
        try:
            row = decode_progress(raw)
        except msgspec.MsgspecError as error:
            raise self._unreadable(error) from None
        if row.version != VERSION:
            raise self._unreadable(f"version {row.version}")
        return row

    def _read(self, raw: bytes) -> SessionRow:
        try:
            return decode_session(raw)
        except msgspec.MsgspecError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, found: object) -> StoreError:
        return StoreError(
            f"the state of partition {self.number} was written by another version of stream_guard "
            f"(this one reads version {VERSION}; {found}); run that version, or begin anew with another group"
        )


def _covers(offsets: Mapping[int, int], others: Mapping[int, int]) -> bool:
    return offsets is others or all(offset <= offsets.get(tag, -1) for tag, offset in others.items())
