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
    """A gate in this process. What it is told has ``budget`` seconds to be judged; a check has its own."""

    def __init__(self, ask: Ask, loop: asyncio.AbstractEventLoop, budget: float | None = None) -> None:
        self._ask, self._loop, self._budget = ask, loop, budget

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request, as a caller would read it."""
        asked = asyncio.run_coroutine_threadsafe(self._ask(path, body), self._loop)
        try:
            said = asked.result(self._budget if path == "/v1/events" else None)
        except TimeoutError:  # it is judged even so, and counts
            raise GateError(f"the gate gave no answer within {self._budget} seconds", 503) from None
        except RequestRefused as refusal:
            raise GateError(str(refusal), refusal.status) from None
        except StreamGuardError as error:  # no history, say: whoever asks has to say so in words that stop the agent
            raise GateError(str(error), 503) from None
        plain: dict[str, Any] = msgspec.to_builtins(said)
        return plain
