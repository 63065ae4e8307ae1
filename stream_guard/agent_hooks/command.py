"""``hook``: hands what an agent's program says on standard input to the gate, and its answer back.

The gate reads the payload itself, so that a hook need not: this module and the client are all that it imports.
"""

from __future__ import annotations

import os
import sys

from stream_guard.agent_hooks.client import CUT, GateClient, GateError
from stream_guard.agent_hooks.dialects import AGENTS

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stream_guard.agent_hooks.question import Said

# As in stream_guard.settings, which takes far longer to import than this hook may take.
DEFAULTS = {
    "gate": "http://127.0.0.1:8750",
    "token_file": "",
    "on_error": "closed",
    "timeout": "2",
    "agent": "",
    "pause_as": "review",
}
CHOICES = {"on_error": ("closed", "ask", "open"), "pause_as": ("review", "ask")}
PREFIX = "STREAM_GUARD_HOOK__"
_LARGE = 65536  # bytes; a gate that breaks off a shorter request is no gate that found it too large


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
    try:
        out, err, code = _answer(options, sys.stdin.buffer.read())
    except Exception as error:  # noqa: BLE001  (any other way to end would let the call run)
        from stream_guard.agent_hooks.asking import fail  # noqa: PLC0415

        out, err, code = fail(options, error)
    if out:
        sys.stdout.write(out + "\n")
        sys.stdout.flush()
    if err:
        sys.stderr.write(err + "\n")
    return code


def _answer(options: Mapping[str, str], said: bytes) -> Said:
    wrong = next((name for name, known in CHOICES.items() if options[name] not in known), "")
    try:
        _refuse_wrong(wrong, options)
        token, timeout = read_token(options["token_file"]), _seconds(options["timeout"])
        client = GateClient(options["gate"], token=token, timeout=timeout)
        try:
            return _relay(client, options, said) or _ask(client, options, said)
        finally:
            client.close()
    except GateError as error:
        from stream_guard.agent_hooks.asking import answer_gateless  # noqa: PLC0415

        # Whoever wrote a wrong option chose nothing.
        return answer_gateless({**options, "on_error": "closed"} if wrong else options, said, error)


def _refuse_wrong(name: str, options: Mapping[str, str]) -> None:
    if name:
        raise GateError(f"{name} is {options[name]!r}; write {', '.join(CHOICES[name])}")


def _relay(client: GateClient, options: Mapping[str, str], said: bytes) -> Said | None:
    """Return what the gate answers to the payload as it is; None where it does not take it like that."""
    told = {name: options[name] for name in ("pause_as", "event", "agent") if options[name]}
    told["process"] = str(os.getppid() or 1)  # 0 is one outside the container, and none to the gate
    query = "&".join(f"{name}={_quoted(value)}" for name, value in told.items())
    try:
        reply = client.exchange(f"/v1/hooks/{options['program']}?{query}", said)
    except GateError as error:
        if error.status == CUT and len(said) > _LARGE:
            return None
        raise
    code, _, length = reply.mark.partition(" ")
    if reply.status != 200 or not code.isdecimal() or not length.isdecimal():
        return None
    return reply.body[: int(length)].decode(), reply.body[int(length) :].decode(), int(code)


def _ask(client: GateClient, options: Mapping[str, str], said: bytes) -> Said:
    """Read the payload here and ask in parts: it is too large, or no JSON, or the gate is of another version."""
    from stream_guard.agent_hooks.asking import answer_in_parts  # noqa: PLC0415

    return answer_in_parts(client, options, said)


def _quoted(text: str) -> str:
    """Return a text as it stands in an address; urllib takes longer to import than the rest."""
    signs = (chr(byte) for byte in text.encode("utf-8", "surrogateescape"))
    return "".join(sign if sign.isascii() and sign.isalnum() else f"%{ord(sign):02X}" for sign in signs)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 600:
        raise GateError(f"timeout is {text!r}; write seconds, such as 2")
    return seconds


def read_token(file: str) -> str:
    """Return the token of a file, nothing without a file; GateError when it cannot be read."""
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
