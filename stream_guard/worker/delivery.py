"""Delivery of a batch: its alerts, then its dead letters, one batch after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from stream_guard.alerting.delivery import Delivery
from stream_guard.asking.judged_alerts import JudgedAlerts
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.judge.fold import Engine
from stream_guard.judge.model import Alert, Finding
from stream_guard.ports import Record

UnreadableRecord: TypeAlias = tuple[Record, str]
"""A record that cannot be decoded, and the reason."""


class PendingDeadLetters:
    """Holds the dead letters of a batch until the batch before is durable."""

    def __init__(self) -> None:
        self._pending: list[UnreadableRecord] = []

    def add(self, record: Record, reason: str) -> None:
        """Hold the record with the reason."""
        self._pending.append((record, reason))

    def take(self) -> Sequence[UnreadableRecord]:
        """Return the dead letters since the last call."""
        taken, self._pending = self._pending, []
        return taken


class BatchDelivery:
    """Delivers in a thread, so that the next batch can be evaluated meanwhile. Sinks allow one caller at a time."""

    def __init__(self, delivery: Delivery, dead_letters: DeadLetters, alerts: JudgedAlerts | None = None) -> None:
        self._delivery = delivery
        self._alerts = alerts or JudgedAlerts()
        self._dead_letters = dead_letters
        self._lock = asyncio.Lock()

    def has_answers(self) -> bool:
        """Whether alerts that waited for a judge may go out now."""
        return self._alerts.are_there()

    async def send(
        self,
        alerts: Sequence[Alert],
        dead_letters: Sequence[UnreadableRecord],
        asked: Sequence[Finding] = (),
        engine: Engine | None = None,
    ) -> None:
        """Return when the alerts are acknowledged, and after them the dead letters; raise what prevents it.

        Findings about which a judge is ``asked`` are on disk then, and alerts that waited for it are out too.
        """
        if alerts or dead_letters or asked or (engine is not None and self.has_answers()):
            async with self._lock:
                try:
                    await asyncio.to_thread(self._send, alerts, dead_letters, asked, engine)
                except asyncio.CancelledError:
                    self._delivery.abandon()  # the worker ends, and must not wait for the retries of the thread
                    raise

    def _send(
        self,
        alerts: Sequence[Alert],
        dead_letters: Sequence[UnreadableRecord],
        asked: Sequence[Finding],
        engine: Engine | None,
    ) -> None:
        if engine is not None:
            alerts = [*alerts, *self._alerts.exchange(asked, engine)]
        if alerts:
            self._delivery.deliver(alerts)
            self._delivery.flush()
        self._alerts.note_sent()
        if dead_letters:
            for record, reason in dead_letters:
                self._dead_letters.add(record, reason)
            self._dead_letters.flush()
