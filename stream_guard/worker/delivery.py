"""Bringing alerts and dead letters to safety, those of one batch after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.errors import SinkError
from stream_guard.model import Alert
from stream_guard.observability.counts import Counts
from stream_guard.ports import Record, Sink

Burial: TypeAlias = tuple[Record, str]
"""A record and the reason why it could not be read."""

_PAUSES: Final = (0.1, 0.4, 1.6)  # between tries to deliver, in seconds


class PendingDeadLetters:
    """Keeps what a batch could not read until the batch is settled: the one before may still be on its way."""

    def __init__(self) -> None:
        self._waiting: list[Burial] = []

    def add(self, record: Record, reason: str) -> None:
        """Keep the record with the reason."""
        self._waiting.append((record, reason))

    def take(self) -> Sequence[Burial]:
        """Return what was kept, and begin anew."""
        taken, self._waiting = self._waiting, []
        return taken


class Delivery:
    """Sends in a thread, so that judging goes on; never two batches at once, because sinks are made for one caller."""

    def __init__(self, sinks: Mapping[str, Sink], dead_letters: DeadLetters, counts: Counts) -> None:
        self._sinks = sinks
        self._dead_letters = dead_letters
        self._counts = counts
        self._one = asyncio.Lock()

    async def send(self, alerts: Sequence[Alert], buried: Sequence[Burial]) -> None:
        """Return when the alerts are acknowledged, and then the letters; raise what keeps them from being so."""
        if not (alerts or buried):
            return
        async with self._one:
            for name, sink in self._sinks.items():
                await self._deliver(name, sink, alerts)
            if buried:
                await asyncio.to_thread(self._bury, buried)

    async def _deliver(self, name: str, sink: Sink, alerts: Sequence[Alert]) -> None:
        """Send, and try again where that may help; what cannot be delivered stops the worker."""
        if not alerts:
            return
        for pause in (*_PAUSES, None):
            try:
                await asyncio.to_thread(_send, sink, alerts)
            except SinkError as error:
                if not error.retryable or pause is None:
                    self._counts.alerts[name, "failed" if error.retryable else "rejected"] += len(alerts)
                    raise
                await asyncio.sleep(pause)
            else:
                self._counts.alerts[name, "ok"] += len(alerts)
                return

    def _bury(self, buried: Sequence[Burial]) -> None:
        for record, reason in buried:
            self._dead_letters.add(record, reason)
        self._dead_letters.flush()


def _send(sink: Sink, alerts: Sequence[Alert]) -> None:
    sink.send(alerts)
    sink.flush()
