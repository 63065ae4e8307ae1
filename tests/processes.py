"""Processes of the command line that start quickly: copies of one that has imported everything already.

A process of ``stream-guard`` imports for half a second before it does anything, and the tests start hundreds of them.
Each test process keeps one server (``tests/process_server.py``), which imports a command when it is first asked for it
and then forks a copy for every start. The copy gets the arguments, environment, folder and streams that it would get
from the shell. It has its own process id, takes signals and can be killed like any other.

A copy has no hash seed of its own. A test that compares two processes starts one of them afresh (``fresh=True``), so
that nothing that depends on the order of a set goes unnoticed.
"""

from __future__ import annotations

import atexit
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.process_server import ANSWER, ROOT, Start, receive, send

COMMAND = ("-m", "stream_guard.cli")
RUNNING: set[Copy] = set()  # copies that were started and whose end nobody has seen yet


def start(
    *arguments: object,
    env: Mapping[str, str] | None = None,
    launcher: tuple[str, ...] = COMMAND,
    fresh: bool = False,
    **options: Any,
) -> subprocess.Popen[Any]:
    """Start ``stream-guard`` with these arguments, or what else Python launches; the options are those of Popen.

    A module that launches it in another way changes what it must in its own process, where all is imported already.
    The variables are added to those of the test process, without the settings of whoever runs the tests.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith("STREAM_GUARD_")}
    kind = subprocess.Popen if fresh or launcher[0] != "-m" else Copy
    return kind([sys.executable, *launcher, *map(str, arguments)], env={**ours, **(env or {})}, **options)


def run(
    *arguments: object, stdin: Any = None, timeout: float = 180, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run ``stream-guard`` with these arguments to its end and return what it printed."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.PIPE}
    with start(*arguments, **(pipes | options)) as process:
        try:
            out, err = process.communicate(stdin, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class Copy(subprocess.Popen[Any]):
    """A process that the server forks. Only where Popen would fork and wait, the server is asked."""

    def _execute_child(self, args: list[str], *rest: Any) -> None:
        _, _, _, _, folder, env, _, _, _, stdin, p2cwrite, c2pread, stdout, errread, stderr, *_ = rest
        streams = [own if given == -1 else given for own, given in enumerate((stdin, stdout, stderr))]
        self._answers, theirs = socket.socketpair()
        with theirs:
            start = Start(args[3:], env, str(folder or Path.cwd()), module=args[2])
            send(server(), start, [*streams, theirs.fileno()])
        self.pid, _ = ANSWER.unpack(receive(self._answers, ANSWER.size))
        self._child_created = True
        RUNNING.add(self)
        self._close_pipe_fds(stdin, p2cwrite, c2pread, stdout, errread, stderr)  # type: ignore[attr-defined]  # Popen's

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self.returncode if self.returncode is not None else self._poll()

    def _poll(self) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]  # Popen's
            pid, status = self._try_wait(os.WNOHANG) if self.returncode is None else (0, 0)
            if pid:
                self._handle_exitstatus(status)  # type: ignore[attr-defined]  # Popen's
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags & os.WNOHANG and not self._has_answer():
            return 0, 0
        pid, status = ANSWER.unpack(receive(self._answers, ANSWER.size))
        self._answers.close()
        RUNNING.discard(self)
        return pid, status

    def _has_answer(self) -> bool:
        waiting = select.poll()  # unlike `select.select`, for any number of files that a test has open
        waiting.register(self._answers, select.POLLIN)
        return bool(waiting.poll(0))


@cache
def server() -> socket.socket:
    """Return the connection to the server of this test process; the server ends with it."""
    ours, theirs = socket.socketpair()
    safe = ["-P"] if sys.flags.safe_path else []  # the tests import another build than that of their folder
    command = [sys.executable, *safe, "-m", "tests.process_server", str(theirs.fileno())]
    with theirs:
        server = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    atexit.register(server.wait)
    atexit.register(ours.close)
    return ours
