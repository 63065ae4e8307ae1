"""The product, driven by its interface; no other file of this folder knows it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from stream_guard.judge.model import Event, Finding
from stream_guard.judge.spec import Policy
from stream_guard.pipeline import open_table
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore

Mode: TypeAlias = Literal["batch", "stream"]


class Product:
    """One run of the product over a store that outlives restarts."""

    def __init__(
        self, policy: Policy, mode: Mode, limits: SessionLimits | None = None, store: MemoryStore | None = None
    ) -> None:
        self._policy, self._mode, self._limits = policy, mode, limits
        self._store = store if store is not None else MemoryStore()
        self._open()

    def _open(self) -> None:
        self._table = open_table(self._policy, limits=self._limits, store=self._store, mode=self._mode)

    def feed(self, event: Event) -> list[Finding]:
        found: list[Finding] = []
        self._table.feed(event, found)
        return found

    def advance(self, time: float) -> list[Finding]:
        found: list[Finding] = []
        self._table.advance(time, found)
        return found

    def end_all(self) -> list[Finding]:
        found: list[Finding] = []
        self._table.end_all(found)
        return found

    def commit_and_restart(self) -> None:
        self._table.commit()
        watermark = self._table.watermark
        self._open()
        self._table.watermark = watermark  # it is stored beside the progress in the source

    def rows(self) -> int:
        """How many rows there are after a commit: sessions, and values of keys that span sessions."""
        self._table.commit()
        return sum(1 for _ in self._store.deadlines())
