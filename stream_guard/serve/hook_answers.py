"""Hooks over HTTP: the gate reads an agent's payload itself, whether the agent posts it or its hook's process does."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from stream_guard.agent_hooks.asking import Asking, question_of, spoken
from stream_guard.agent_hooks.client import MARK, GateError
from stream_guard.agent_hooks.command import CHOICES
from stream_guard.agent_hooks.dialects import AGENTS
from stream_guard.agent_hooks.question import HookAnswer
from stream_guard.judge.model import Json
from stream_guard.policy.message_parts import did_you_mean, show
from stream_guard.serve.bodies import RequestRefused
from stream_guard.serve.this_gate import Ask, ThisGate

HOOK_QUERY: Final = ("pause_as", "event", "agent", "process")
_MOST_SESSIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class HookOptions:
    """How a hook wants to be answered; ``process`` is the one that started it, 0 where there is none."""

    pause_as: str = "review"
    event: str = ""
    agent: str = ""
    process: int = 0


def read_options(query: Mapping[str, str]) -> HookOptions:
    """Return the options of a query, or raise RequestRefused."""
    pause_as, process = query.get("pause_as", "review"), query.get("process", "0")
    if pause_as not in CHOICES["pause_as"]:
        raise RequestRefused(422, f"pause_as is {show(pause_as)}; write {' or '.join(CHOICES['pause_as'])}")
    if not (process.isascii() and process.isdecimal() and len(process) < 20):
        raise RequestRefused(422, "process is the number of a process")
    return HookOptions(pause_as, query.get("event", ""), query.get("agent", ""), int(process))


class HeldCounts:
    """How often each session was sent back to work, of the sessions that were last."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, int] = OrderedDict()

    def unjudged(self, session: str) -> int:
        """Count nothing: a call that this gate does not judge does not run."""
        del session
        return 0

    def held(self, session: str, *, again: bool) -> int:
        """Count that the agent is sent back to work; return how often it was since it first wanted to stop."""
        before = self._held.pop(session, 0) if again else 0
        self._held.pop(session, None)
        self._held[session] = before + 1
        if len(self._held) > _MOST_SESSIONS:
            self._held.popitem(last=False)
        return before


async def answer_hook(agent: str, data: Json, ask: Ask, options: HookOptions, counts: HeldCounts) -> HookAnswer:
    """Return what the agent is told. A process is refused what this gate cannot judge: it knows what its user chose."""
    if agent not in AGENTS:
        raise RequestRefused(404, f"no hook is called {show(agent)}{did_you_mean(agent, AGENTS)}")
    if not isinstance(data, dict):
        raise RequestRefused(422, f"send the object that {agent} gives its hooks")
    dialect, asked = question_of(data, agent, options.event, options.process)
    gate = ThisGate(ask, asyncio.get_running_loop())
    asking = Asking(gate, dialect, pause_as=options.pause_as, agent=options.agent, counts=counts)
    if not options.process:
        return await asyncio.to_thread(asking.answer, asked)
    try:
        return await asyncio.to_thread(asking.judge, asked)
    except GateError as error:
        raise RequestRefused(409, str(error)) from None


def to_object(answer: HookAnswer) -> dict[str, Any]:
    """Return an answer as an object, where an empty one changes nothing: exit codes of agents are in it."""
    if answer.said is None and answer.code:
        return {"exit": answer.code, "stderr": answer.stderr}
    return answer.said or {}


def to_process(answer: HookAnswer) -> tuple[bytes, dict[str, str]]:
    """Return what a hook's process hands on without reading it: a body, and the header that says how it is cut."""
    out, err, code = spoken(answer)
    first = out.encode()
    return first + err.encode(errors="replace"), {MARK: f"{code} {len(first)}"}
