"""Telemetry beside the gate: exports that a receiver takes in are judged as recorded events."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Event as Flag
from threading import Thread
from typing import Final

from stream_guard.decoding.reader import DeadLetterSink, EventReader
from stream_guard.judge.model import Event
from stream_guard.ports import Decoder
from stream_guard.serve.service import EVENTS_AT_ONCE, Service
from stream_guard.sources.otlp import OtlpSource

_PAUSE: Final = 0.2  # seconds between two looks at an empty spool

_logger = logging.getLogger(__name__)


class TelemetryFeed:
    """Reads a receiver's exports in a thread of its own, and lets the gate judge their events.

    An export is forgotten when it was judged. Sessions are as durable as those of the gate. Once exports cannot be
    judged, none is taken in: their senders are refused, and keep them.
    """

    def __init__(
        self, source: OtlpSource, decoder: Decoder, letters: DeadLetterSink, service: Service, stop: Flag
    ) -> None:
        self._source, self._service, self._stop = source, service, stop
        self._reader = EventReader(decoder, letters)
        self._thread = Thread(target=self._run, name="stream_guard-telemetry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Judge what is being judged, and stop."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            for record in self._source:
                self._judge(self._reader.elapse(_PAUSE) if record is None else self._reader.read(record))
                if record is None and self._stop.is_set():
                    return  # nothing more is there
        except Exception:
            _logger.exception("telemetry is neither judged nor taken in any more until the server is started again")
        finally:
            self._source.close()

    def _judge(self, events: Sequence[Event]) -> None:
        # A few at a time: a check need not wait for a whole export.
        for start in range(0, len(events), EVENTS_AT_ONCE):
            part = events[start : start + EVENTS_AT_ONCE]
            self._service.submit(self._observe, part).result()

    def _observe(self, events: Sequence[Event]) -> None:
        self._service.gate.observe(*events)
