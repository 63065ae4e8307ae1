"""A share of a replay in a process of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Final

from stream_guard.errors import StreamGuardError
from stream_guard.running.replay import ShareReader

_PATIENCE: Final = 5.0  # seconds that a process may take to leave


class ProcessWorker:
    """Calls a ``ShareReader`` in another process; ``make`` is called there, and must be importable by name."""

    def __init__(self, make: Callable[..., ShareReader], *values: Any, name: str, resumes: bool = False) -> None:
        # Spawned, not forked: a fork copies threads' locks and open connections that belong to this process.
        context = get_context("spawn")
        self._name = name
        self._resumes = resumes
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, values), name=name, daemon=True)
        self._process.start()
        theirs.close()

    def call(self, method: str, *values: int) -> None:
        """Send the call."""
        try:
            self._pipe.send((method, values))
        except OSError as error:
            raise self._gone() from error

    def result(self) -> Any:
        """Wait for the result; an error in the other process is raised here."""
        try:
            worked, value = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise self._gone() from error
        if not worked:
            raise StreamGuardError(value)
        return value

    def close(self) -> None:
        """End the process; its uncommitted work is lost and will be repeated."""
        self._pipe.close()
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _gone(self) -> StreamGuardError:
        self._process.join(_PATIENCE)
        again = "it goes on from its last commit" if self._resumes else "nothing was reported"
        return StreamGuardError(f"{self._name} ended with exit code {self._process.exitcode}; start again: {again}")


def _serve(pipe: Connection, make: Callable[..., ShareReader], arguments: tuple[Any, ...]) -> None:
    """Answer calls until the pipe is closed."""
    # Ctrl-C reaches every process of the terminal; the one that leads decides when all of them stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reader: ShareReader | None = None
    while True:
        try:
            method, values = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            reader = reader or make(*arguments)
            answer = (True, getattr(reader, method)(*values))
        except StreamGuardError as error:
            answer = (False, str(error))
        try:
            pipe.send(answer)
        except OSError:
            return
