"""Allows without judgement, written into the audit behind the answer: the caller does not wait for the history."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Final

from stream_guard.errors import StreamGuardError
from stream_guard.guard.gate import Gate
from stream_guard.guard.rulings import Ruling
from stream_guard.judge.model import ToolCall

_logger = logging.getLogger(__name__)

MOST: Final = 4096  # allows that may wait for a history that cannot be written
_PAUSE: Final = 0.5  # seconds before it is tried again


class UnjudgedAllows:
    """Records allows in the order in which they were given. A record that cannot be written yet is tried again.

    ``add`` refuses more than ``most`` that wait: an allow that nobody will find in the audit is not to be given.
    """

    def __init__(self, gate: Gate, most: int = MOST) -> None:
        self._gate = gate
        self._most = most
        self._waiting = 0
        self._lock = Lock()
        self._closing = Event()
        # Not the thread that judges: that it is late is why there is something to record.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="stream_guard-unjudged")

    def add(self, attempt: ToolCall, ruling: Ruling) -> bool:
        """Have an allow recorded; False when too many wait already."""
        with self._lock:
            if self._waiting >= self._most:
                return False
            self._waiting += 1
        self._writer.submit(self._write, attempt, ruling)
        return True

    def close(self) -> None:
        """Write what waits, and say how much could not be written."""
        self._closing.set()
        self._writer.shutdown()
        if self._waiting:
            _logger.error("%d attempts that were allowed without being judged are not in the audit", self._waiting)

    def _write(self, attempt: ToolCall, ruling: Ruling) -> None:
        failed = False
        while True:
            try:
                self._gate.record_unjudged(attempt, ruling)
            except StreamGuardError as error:
                if not failed:
                    _logger.error("an allow without judgement is not in the audit yet: %s", error)  # noqa: TRY400
                failed = True
                if self._closing.wait(_PAUSE):
                    return
                continue
            with self._lock:
                self._waiting -= 1
            return
