"""A share of a replay in a process of its own.

A copy of this process (a fork) works at once; a fresh one imports everything first, which takes a second. But a copy
has this process's connections too, and locks that its other threads hold would stay locked for ever. So the caller says
whether a copy may be made, and it is made only of a process with a single thread.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from stream_guard.errors import StreamGuardError
from stream_guard.running.replay import ShareReader

_PATIENCE: Final = 5.0  # seconds that a process may take to leave
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


class ProcessWorker:
    """Calls a ``ShareReader`` in another process; ``make`` is called there, and must be importable by name.

    ``may_copy`` says that nothing is open in this process which a copy of it must not have.
    """

    def __init__(
        self, make: Callable[..., ShareReader], *values: Any, name: str, resumes: bool = False, may_copy: bool = False
    ) -> None:
        self._name = name
        self._resumes = resumes
        self._pipe, theirs = Pipe()
        self._process: BaseProcess
        if may_copy and _has_one_thread():
            copied = (self._pipe, theirs, make, values)
            self._process = get_context("fork").Process(target=_serve_as_copy, args=copied, name=name, daemon=True)
            with _holding_signals():
                self._process.start()
        else:
            sent = (theirs, make, values)
            self._process = get_context("spawn").Process(target=_serve, args=sent, name=name, daemon=True)
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


def _has_one_thread() -> bool:
    """Whether this process is known to have no thread beside this one, be it Python's or a library's."""
    try:
        return sys.platform == "linux" and len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


@contextmanager
def _holding_signals() -> Iterator[None]:
    """Let signals wait: the hooks that Python calls at a fork drop the exception that Ctrl-C raises in them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve_as_copy(
    leading: Connection, pipe: Connection, make: Callable[..., ShareReader], arguments: tuple[Any, ...]
) -> None:
    """Answer calls in a copy of the process that leads."""
    leading.close()  # its end of the pipe: while it is open anywhere, the pipe does not end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # which the one that leads may handle
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    _serve(pipe, make, arguments)


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
