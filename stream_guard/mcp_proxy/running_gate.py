"""A gate that runs elsewhere, as a proxy asks it: over HTTP, a connection for each question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stream_guard.agent_hooks.client import GateClient


class RunningGate:
    """A gate over HTTP. ``open_client`` makes a connection, which answers one question within its time."""

    def __init__(self, open_client: Callable[[], GateClient]) -> None:
        self._open_client = open_client

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request; GateError when there is none."""
        client = self._open_client()
        try:
            return client.post(path, body)
        finally:
            client.close()
