"""``hook``: reads what an agent's program says on standard input, asks the gate, and answers on standard output."""

from __future__ import annotations

import os
import sys
from json import dumps, loads

from stream_guard.agent_hooks import session_counts
from stream_guard.agent_hooks.asking import ON_ERROR, PAUSE_AS, Asking
from stream_guard.agent_hooks.client import GateClient, GateError, NoGate
from stream_guard.agent_hooks.dialects import AGENTS, dialect_of, speaker
from stream_guard.agent_hooks.question import NOTHING, HookQuestion, UnreadableError, folder_of

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from stream_guard.agent_hooks.question import AgentDialect, HookAnswer

# As in stream_guard.settings, which takes far longer to import than this hook may take.
DEFAULTS = {
    "gate": "http://127.0.0.1:8750",
    "token_file": "",
    "on_error": "closed",
    "timeout": "2",
    "agent": "",
    "pause_as": "review",
}
PREFIX = "STREAM_GUARD_HOOK__"


class UnknownOption(Exception):  # noqa: N818  (no error of the program: the command line explains it)
    """These are not the options of a hook, or somebody asks for help."""


def read_options(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a hook: defaults, then the environment, then flags; UnknownOption for others.

    ``program`` is the agent that asks, ``event`` its event where the payload does not name it.
    """
    options = {name: environment.get(PREFIX + name.upper(), value) for name, value in DEFAULTS.items()}
    if not arguments or arguments[0] not in AGENTS:
        raise UnknownOption
    options |= {"program": arguments[0], "event": ""}
    rest = list(arguments[1:])
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("--") or name not in options or name == "program" or not (equals or rest):
            raise UnknownOption
        options[name] = value if equals else rest.pop(0)
    return options


def run_hook(options: Mapping[str, str]) -> int:
    """Answer one hook; returns the exit code. Whatever fails is a refusal, or a warning where open."""
    dialect = dialect_of(options["program"])
    try:
        answer = _answer(options, dialect, sys.stdin.buffer.read())
    except Exception as error:  # noqa: BLE001  (any other way to end would let the call run)
        text = f"stream_guard: the hook failed: {error}"
        is_open = options["on_error"] == "open"
        answer = (
            dialect.warn(dialect.allow(HookQuestion("", NOTHING, "")), text) if is_open else dialect.refuse_unread(text)
        )
    if answer.said is not None:
        sys.stdout.write(dumps(answer.said) + "\n")
        sys.stdout.flush()
    if answer.stderr:
        sys.stderr.write(answer.stderr + "\n")
    return answer.code


def _answer(options: Mapping[str, str], dialect: AgentDialect, said: bytes) -> HookAnswer:
    data = _payload(said, dialect.name)
    speaking = speaker(data, dialect.name)
    if speaking != dialect.name:
        dialect = dialect_of(speaking)
    asked = dialect.read(data, options["event"])
    asked.folder = folder_of(data)
    if not asked.session and dialect.may_lack_session:
        asked.session = f"{dialect.name}:{os.getppid()}:{asked.folder}"
    client, on_error, pause_as = _open(options)
    try:
        return Asking(
            client,
            dialect,
            on_error=on_error,
            pause_as=pause_as,
            agent=options["agent"],
            counts=DiskCounts(),
        ).answer(asked)
    finally:
        client.close()


class DiskCounts:
    """What is counted about a session, kept between the processes of its hooks."""

    def unjudged(self, session: str) -> int:
        """Count a call that runs without judgement; return how many did before."""
        return session_counts.count(session_counts.UNJUDGED, session, os.environ)

    def held(self, session: str, *, again: bool) -> int:
        """Count that the agent is sent back to work; return how often it was since it first wanted to stop."""
        if not again:
            session_counts.forget(session_counts.HELD, session, os.environ)
        return session_counts.count(session_counts.HELD, session, os.environ)


def _payload(said: bytes, agent: str) -> dict[str, Any]:
    """Return the object of a payload; some agents begin it with a byte order mark."""
    try:
        data = loads(said.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"standard input is not the JSON that {agent} sends: {error}") from None
    if not isinstance(data, dict):
        raise UnreadableError(f"standard input is not the object that {agent} sends")
    return data


def _open(options: Mapping[str, str]) -> tuple[GateClient, str, str]:
    """Return the client, and what a call gets that was not judged, or that waits for a person.

    A wrong option is a gate that cannot be asked.
    """
    for name, known in (("on_error", ON_ERROR), ("pause_as", PAUSE_AS)):
        if options[name] not in known:
            wrong = GateError(f"{name} is {options[name]!r}; write {', '.join(known)}")
            return NoGate(wrong), "closed", "review"
    try:
        client = GateClient(options["gate"], token=_token(options["token_file"]), timeout=_seconds(options["timeout"]))
    except GateError as error:
        return NoGate(error), options["on_error"], options["pause_as"]
    return client, options["on_error"], options["pause_as"]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 600:
        raise GateError(f"timeout is {text!r}; write seconds, such as 2")
    return seconds


def _token(file: str) -> str:
    if not file:
        return ""
    try:
        with open(file, encoding="ascii") as opened:  # noqa: PTH123  (pathlib takes longer to import)
            token = opened.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise GateError(f"{file}: the token cannot be read: {error}") from None
    if not token.isprintable() or not token:
        raise GateError(f"{file}: there is no token in it; make one with: stream-guard tokens new")
    return token


def main(arguments: Sequence[str]) -> int | None:
    """Answer a hook and return the exit code; None where the command line has to explain the options."""
    try:
        options = read_options(arguments, os.environ)
    except UnknownOption:
        return None
    return run_hook(options)
