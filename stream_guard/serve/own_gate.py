"""The gate for adapters outside the server's loop: asked in the words of the API, on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Any

from stream_guard.ports import Decoder
from stream_guard.serve.access import Identity
from stream_guard.serve.app import Routes
from stream_guard.serve.service import Service
from stream_guard.serve.this_gate import ThisGate


class OwnGate:
    """A gate in this process, with the time budget that a served one has."""

    def __init__(self, service: Service, decoder: Decoder) -> None:
        self._loop, self._budget = asyncio.new_event_loop(), service.settings.budget
        self._routes = Routes(service, decoder)
        self._thread = Thread(target=self._loop.run_forever, name="stream_guard-own-gate", daemon=True)
        self._thread.start()

    def asked_by(self, who: Identity) -> ThisGate:
        """Return the gate for a caller who is known."""
        return ThisGate(self._routes.asked_by(who), self._loop, self._budget)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request of this process; GateError when there is none."""
        return self.asked_by(Identity()).post(path, body)

    def close(self) -> None:
        """Answer nothing more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
