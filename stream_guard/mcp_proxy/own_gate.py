"""A gate in the process of a proxy, with a policy of its own."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Any

from stream_guard.agent_hooks.client import GateError
from stream_guard.errors import StreamGuardError
from stream_guard.ports import Decoder
from stream_guard.serve.access import Identity
from stream_guard.serve.app import Routes
from stream_guard.serve.service import Service
from stream_guard.serve.this_gate import ThisGate


class OwnGate:
    """A gate in this process, with the time budget that a served one has, on a loop in a thread of its own."""

    def __init__(self, service: Service, decoder: Decoder) -> None:
        self._loop = asyncio.new_event_loop()
        self._gate = ThisGate(Routes(service, decoder).asked_by(Identity()), self._loop)
        self._thread = Thread(target=self._loop.run_forever, name="stream_guard-own-gate", daemon=True)
        self._thread.start()

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request; GateError when there is none."""
        try:
            return self._gate.post(path, body)
        except StreamGuardError as error:
            raise GateError(str(error)) from None

    def close(self) -> None:
        """Answer nothing more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
