"""What a hook's process answers by itself: it reads the payload, and asks the gate in parts or goes without one."""

from __future__ import annotations

import os

from stream_guard.agent_hooks.dialects import dialect_of, speaker
from stream_guard.agent_hooks.gateless import Gateless
from stream_guard.agent_hooks.question import NOTHING, HookQuestion, UnreadableError, folder_of
from stream_guard.agent_hooks.small_json import dumps, loads

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from stream_guard.agent_hooks.client import GateClient, GateError
    from stream_guard.agent_hooks.question import AgentDialect, HookAnswer, Said


def answer_in_parts(client: GateClient, options: Mapping[str, str], said: bytes) -> Said:
    """Return what the agent is told after the gate was told and asked, event by event."""
    from stream_guard.agent_hooks.asking import Asking  # noqa: PLC0415  (not needed without a gate)
    from stream_guard.agent_hooks.session_counts import DiskCounts  # noqa: PLC0415

    dialect, asked = _read(options, said)
    how = {name: options[name] for name in ("on_error", "pause_as", "agent")}
    return spoken(Asking(client, dialect, **how, counts=DiskCounts()).answer(asked))


def answer_gateless(options: Mapping[str, str], said: bytes, error: GateError) -> Said:
    """Return what the agent is told when the gate cannot be asked."""
    dialect, asked = _read(options, said)
    counts = None
    if options["on_error"] == "open":
        from stream_guard.agent_hooks.session_counts import DiskCounts  # noqa: PLC0415

        counts = DiskCounts()
    return spoken(Gateless(dialect, options["on_error"], counts).answer(asked, str(error)))


def fail(options: Mapping[str, str], error: Exception) -> Said:
    """Return a refusal, or a warning where open: something failed, and nobody knows what hangs on it."""
    dialect, text = dialect_of(options["program"]), f"stream_guard: the hook failed: {error}"
    if options["on_error"] == "open":
        return spoken(dialect.warn(dialect.allow(HookQuestion("", NOTHING, "")), text))
    return spoken(dialect.refuse_unread(text))


def spoken(answer: HookAnswer) -> Said:
    """Return an answer as a process gives it."""
    return dumps(answer.said) if answer.said is not None else "", answer.stderr, answer.code


def _read(options: Mapping[str, str], said: bytes) -> tuple[AgentDialect, HookQuestion]:
    data = _payload(said, options["program"])
    return question_of(data, options["program"], options["event"], os.getppid() or 1)


def question_of(data: dict[str, Any], agent: str, event: str, process: int) -> tuple[AgentDialect, HookQuestion]:
    """Return who asks, and what; without a session it is the folder and the process that asks."""
    dialect = dialect_of(speaker(data, agent))
    asked = dialect.read(data, event)
    asked.folder = folder_of(data)
    if not asked.session and dialect.may_lack_session:
        asked.session = f"{dialect.name}:{process}:{asked.folder}" if process else f"{dialect.name}:{asked.folder}"
    return dialect, asked


def _payload(said: bytes, agent: str) -> dict[str, Any]:
    """Return the object of a payload; some agents begin it with a byte order mark."""
    try:
        data = loads(said.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"standard input is not the JSON that {agent} sends: {error}") from None
    if not isinstance(data, dict):
        raise UnreadableError(f"standard input is not the object that {agent} sends")
    return data
