"""The gate as its adapters ask it: in the words of the API, from a thread beside the loop that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from stream_guard.agent_hooks.client import GateError
from stream_guard.errors import StreamGuardError
from stream_guard.serve.bodies import RequestRefused

Ask = Callable[[str, dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]


class ThisGate:
    """A gate in this process."""

    def __init__(self, ask: Ask, loop: asyncio.AbstractEventLoop) -> None:
        self._ask, self._loop = ask, loop

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request, as a caller would read it."""
        try:
            said = asyncio.run_coroutine_threadsafe(self._ask(path, body), self._loop).result()
        except RequestRefused as refusal:
            raise GateError(str(refusal), refusal.status) from None
        except StreamGuardError as error:  # no history, say: whoever asks has to say so in words that stop the agent
            raise GateError(str(error), 503) from None
        plain: dict[str, Any] = msgspec.to_builtins(said)
        return plain
