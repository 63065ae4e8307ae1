"""The proxy between pipes: it starts the server, and its own standard input and output are the client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from threading import Lock, Thread
from types import FrameType
from typing import IO, Final

from stream_guard.errors import SettingsError
from stream_guard.mcp_wire.relay import Relay

_GRACE: Final = 2.0  # seconds that a server has to end after its input has ended, and again after it was told to
_AT_ONCE: Final = 65_536


def run_stdio(command: Sequence[str], relay: Relay, most: int) -> int:
    """Pass messages on until the server ends, or the client does; return the server's exit code."""
    try:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  (the user's)
    except OSError as error:
        raise SettingsError(f"the server {command[0]!r} cannot be started: {error.strerror}") from None
    signal.signal(signal.SIGTERM, _leave)
    with server:
        try:
            _pass_on(server, relay, most)
        finally:
            _stop(server)
    relay.give_up("", "the server has ended")
    return server.returncode


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)  # by way of the clean-up


def _pass_on(server: subprocess.Popen[bytes], relay: Relay, most: int) -> None:
    sent, received, answers = server.stdin, server.stdout, PipeLines(sys.stdout.buffer)
    if sent is None or received is None:
        raise AssertionError("both are pipes")
    to_server = PipeLines(sent)

    def from_client() -> None:
        for line in lines_of(sys.stdin.fileno(), most):
            passed = relay.from_client(line)
            if passed.answer:
                answers.write(passed.answer)
            if passed.forward and not to_server.write(passed.forward):
                break
        to_server.close()
        _stop(server)

    # A daemon: when the server has ended, nobody waits for what the client may still say.
    Thread(target=from_client, name="stream_guard-mcp-client", daemon=True).start()
    for line in lines_of(received.fileno(), most):
        shown = relay.from_server(line)
        if shown.answer:
            to_server.write(shown.answer)
        if shown.forward and not answers.write(shown.forward):
            return


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End the server, as gently as it lets itself be ended."""
    for end in (None, server.terminate, server.kill):
        if end is not None:
            end()
        try:
            server.wait(_GRACE)
        except subprocess.TimeoutExpired:
            continue
        return


def lines_of(opened: int, most: int) -> Iterator[bytes]:
    """Yield the lines of a pipe; SettingsError for one that is longer than ``most`` bytes."""
    # Straight from the descriptor: a buffered file that a thread waits for cannot be left when the process ends.
    held = bytearray()
    while part := os.read(opened, _AT_ONCE):
        searched = len(held)
        held += part
        while (end := held.find(b"\n", searched)) >= 0:
            line, searched = bytes(held[:end]).strip(), 0
            del held[: end + 1]
            if line:
                yield line
        if len(held) > most:
            raise SettingsError(f"a message has more than {most} bytes; set api.max_body_bytes, or send less at once")
    if held.strip():
        yield bytes(held)


class PipeLines:
    """Lines into a pipe, one after the other whoever writes them."""

    def __init__(self, opened: IO[bytes]) -> None:
        self._opened, self._lock = opened, Lock()

    def write(self, line: bytes) -> bool:
        """Write a line; False when nobody reads any more."""
        with self._lock:
            try:
                self._opened.write(line + b"\n")
                self._opened.flush()
            except (OSError, ValueError):
                return False
        return True

    def close(self) -> None:
        """Say that nothing more comes."""
        with self._lock:
            try:
                self._opened.close()
            except OSError:
                return
