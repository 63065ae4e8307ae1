"""Hooks over HTTP: an agent that posts its hooks asks the gate itself, without a process between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from stream_guard.agent_hooks.asking import PAUSE_AS, Asking
from stream_guard.agent_hooks.client import GateError
from stream_guard.agent_hooks.dialects import AGENTS, dialect_of, speaker
from stream_guard.agent_hooks.question import HookAnswer, folder_of
from stream_guard.model import Json
from stream_guard.policy.message_parts import did_you_mean, show
from stream_guard.serve.bodies import RequestRefused

Ask = Callable[[str, dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]


class _ThisGate:
    """The gate as hooks ask it, from a thread beside the loop that answers."""

    def __init__(self, ask: Ask, loop: asyncio.AbstractEventLoop) -> None:
        self._ask, self._loop = ask, loop

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request, as a caller would read it."""
        try:
            said = asyncio.run_coroutine_threadsafe(self._ask(path, body), self._loop).result()
        except RequestRefused as refusal:
            raise GateError(str(refusal), refusal.status) from None
        plain: dict[str, Any] = msgspec.to_builtins(said)
        return plain


async def answer_hook(agent: str, data: Json, ask: Ask, pause_as: str = "review") -> dict[str, Any]:
    """Return what the agent is told; an empty object changes nothing."""
    if agent not in AGENTS:
        raise RequestRefused(404, f"no hook is called {show(agent)}{did_you_mean(agent, AGENTS)}")
    if not isinstance(data, dict):
        raise RequestRefused(422, f"send the object that {agent} gives its hooks")
    if pause_as not in PAUSE_AS:
        raise RequestRefused(422, f"pause_as is {show(pause_as)}; write {' or '.join(PAUSE_AS)}")
    dialect = dialect_of(speaker(data, agent))
    asking = Asking(_ThisGate(ask, asyncio.get_running_loop()), dialect, pause_as=pause_as)
    asked = dialect.read(data, "")
    asked.folder = folder_of(data)
    if not asked.session and dialect.may_lack_session:
        asked.session = f"{dialect.name}:{asked.folder}"
    return _shown(await asyncio.to_thread(asking.answer, asked))


def _shown(answer: HookAnswer) -> dict[str, Any]:
    """Return an answer as an object: agents that go by exit codes find theirs in it."""
    if answer.said is None and answer.code:
        return {"exit": answer.code, "stderr": answer.stderr}
    return answer.said or {}
