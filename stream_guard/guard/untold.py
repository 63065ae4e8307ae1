"""Alerts that a gate has made and not told yet. They belong to the state: rows of its store, in the same commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from math import inf
from struct import Struct
from typing import Final, NamedTuple

from stream_guard.history.records import from_text, to_text
from stream_guard.judge.model import Alert
from stream_guard.judge.ports import ALERT_ROWS, CommittingStore

LEASE: Final = 60.0  # seconds that a process which shares its store has for telling what it made
_HEAD: Final = Struct("<?d")  # whether it is a follow-up, and when it was made


class UntoldAlert(NamedTuple):
    """An alert that others have yet to hear of."""

    alert: Alert
    is_followup: bool  # a person is to look at it; else the answer to the attempt was about it


class UntoldAlerts:
    """The alerts of a guard until they are told. One caller at a time, except for ``note_told``.

    Their rows are written in the commit of the states that made them, and dropped in a later one: what a process that
    dies in between has left is told by the next start, or by another process that shares the store. Without a store
    they end with the process, as its sessions do.
    """

    def __init__(self, store: CommittingStore | None, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._waiting: dict[str, UntoldAlert] = {}
        self._tried: list[str] = []  # of a commit that may yet fail
        self._told: set[str] = set()  # their rows may go
        self._dropped: tuple[str, ...] = ()  # their rows go with this commit
        self._looked = clock()
        self._take_up(-inf)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def look_around(self) -> None:
        """Take up what other processes left that share the store; now and then, and not what they are telling."""
        if self._store is not None and self._store.is_shared and self._clock() - self._looked >= LEASE / 2:
            self._looked = self._clock()
            self._take_up(LEASE)

    def begin(self) -> None:
        """Begin a commit, or try it anew: the rows of what was told go with it."""
        if self._store is None:
            return
        if self._store.is_shared:  # a try that failed has left nothing
            for name in self._tried:
                self._waiting.pop(name, None)
        self._tried.clear()
        self._dropped = tuple(self._told)
        for name in self._dropped:
            self._store.drop(ALERT_ROWS + name)

    def add(self, alerts: Iterable[Alert], *, is_followup: bool) -> None:
        """Add alerts to the commit."""
        for alert in alerts:
            self._waiting[alert.alert_id] = UntoldAlert(alert, is_followup)
            if self._store is not None:
                self._tried.append(alert.alert_id)
                row = _HEAD.pack(is_followup, self._clock()) + to_text(alert).encode()
                self._store.put(ALERT_ROWS + alert.alert_id, row, None)

    def hold(self, alerts: Iterable[Alert]) -> None:
        """Add follow-ups that others keep until they are told."""
        self._waiting |= {alert.alert_id: UntoldAlert(alert, is_followup=True) for alert in alerts}

    def end(self) -> None:
        """Take note that the commit is durable."""
        self._told.difference_update(set(self._dropped) - set(self._tried))
        self._tried.clear()
        self._dropped = ()

    def waiting(self) -> tuple[UntoldAlert, ...]:
        """Return what is to be told."""
        return tuple(self._waiting.values())

    def note_recorded(self, alerts: Iterable[UntoldAlert]) -> None:
        """Take note that the history and the outbox have these; their rows stay until every sink has them."""
        for one in alerts:
            self._waiting.pop(one.alert.alert_id, None)

    def note_told(self, alerts: Iterable[UntoldAlert]) -> None:
        """Take note that every sink has these."""
        if self._store is not None:
            self._told.update(one.alert.alert_id for one in alerts)

    def _take_up(self, age: float) -> None:
        for row in () if self._store is None else self._store.alerts():
            is_followup, made = _HEAD.unpack_from(row)
            alert = from_text(row[_HEAD.size :].decode(), Alert)
            if alert.alert_id not in self._told and self._clock() - made >= age:
                self._waiting[alert.alert_id] = UntoldAlert(alert, is_followup)
