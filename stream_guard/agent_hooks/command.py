"""``hook``: reads what an agent's program says on standard input, asks the gate, and answers on standard output."""

from __future__ import annotations

import json
import os
import sys

from stream_guard.agent_hooks.claude_code import ON_ERROR, ClaudeCodeHook
from stream_guard.agent_hooks.client import GateClient, GateError, NoGate

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# As in stream_guard.settings, which takes far longer to import than this hook may take.
DEFAULTS = {"gate": "http://127.0.0.1:8750", "token_file": "", "on_error": "closed", "timeout": "2", "agent": ""}
PREFIX = "STREAM_GUARD_HOOK__"
PROGRAM = "claude-code"
REFUSE = 2  # Claude Code takes this exit code as a refusal, and standard error as the reason


class UnknownOption(Exception):  # noqa: N818  (no error of the program: the command line explains it)
    """These are not the options of a hook, or somebody asks for help."""


def read_options(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a hook: defaults, then the environment, then flags; UnknownOption for others."""
    options = {name: environment.get(PREFIX + name.upper(), value) for name, value in DEFAULTS.items()}
    if list(arguments[:1]) != [PROGRAM]:
        raise UnknownOption
    rest = list(arguments[1:])
    while rest:
        flag, equals, value = rest.pop(0).partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("--") or name not in options or not (equals or rest):
            raise UnknownOption
        options[name] = value if equals else rest.pop(0)
    return options


def run_hook(options: Mapping[str, str]) -> int:
    """Answer one hook of Claude Code; returns the exit code. Whatever fails is a refusal, or a warning where open."""
    try:
        answer = _answer(options, sys.stdin.buffer.read())
    except Exception as error:  # noqa: BLE001  (any other exit code than this one would let the call run)
        if options["on_error"] != "open":
            sys.stderr.write(f"stream_guard: the hook failed: {error}\n")
            return REFUSE
        answer = {"systemMessage": f"stream_guard: the hook failed: {error}"}
    if answer:
        sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    return 0


def _answer(options: Mapping[str, str], read: bytes) -> dict[str, Any]:
    try:
        data = json.loads(read)
    except ValueError as error:
        raise GateError(f"standard input is not the JSON that {PROGRAM} sends: {error}") from None
    if not isinstance(data, dict):
        raise GateError(f"standard input is not the object that {PROGRAM} sends")
    client, on_error = _open(options)
    try:
        return ClaudeCodeHook(client, on_error=on_error, agent=options["agent"]).answer(data)
    finally:
        client.close()


def _open(options: Mapping[str, str]) -> tuple[GateClient, str]:
    """Return the client, and what a call gets that was not judged; a wrong option is a gate that cannot be asked."""
    on_error = options["on_error"]
    if on_error not in ON_ERROR:
        wrong = GateError(f"on_error is {on_error!r}; write {', '.join(ON_ERROR)}")
        return NoGate(wrong), "closed"
    try:
        client = GateClient(options["gate"], token=_token(options["token_file"]), timeout=_seconds(options["timeout"]))
    except GateError as error:
        return NoGate(error), on_error
    return client, on_error


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
