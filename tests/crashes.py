"""No process of a test run dies or hangs unseen.

A test has a limit: beyond it, it fails and shows where each thread was; where even that does not stop it, its process
ends. A test process that dies, by a signal or by ``os._exit``, leaves a note of where each thread was and of what the
test printed last, and the run fails at once and shows the note under the name of the test. Whoever interrupts a run, as
the limit of ``make test`` does, is told which tests were running.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import stat
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn, TextIO

import pytest

from tests.run_folder import Run, run_of

PRINTED: Final = 4_000  # bytes of what a test printed last
GRACE: Final = 60.0  # seconds for a test to end that has failed at its limit

_NOTE: Final = pytest.StashKey[TextIO]()


def pytest_configure(config: pytest.Config) -> None:
    """Open the note of this process, where the one that leads the run finds it."""
    if (run := run_of(config)) is not None:
        config.stash[_NOTE] = _note_of(run, config.workerinput["workerid"]).open("w", buffering=1)  # type: ignore[attr-defined]  # set where there is a run
        _note_exits(config.stash[_NOTE])
    config.pluginmanager.register(_Running(), "tests-that-run")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Let deadly signals be told in the note as well; pytest has turned them to standard error."""
    if _NOTE in session.config.stash:
        faulthandler.enable(session.config.stash[_NOTE])


def _note_of(run: Run, worker: str) -> Path:
    return run.folder / f"{worker}.note"


def _note_exits(note: TextIO) -> None:
    leave, own = os._exit, os.getpid()

    def leave_with_note(status: int) -> NoReturn:
        if os.getpid() == own:  # a child that was forked may leave like this
            note.write(f"os._exit({status})\n")
            faulthandler.dump_traceback(note)
            note.write(_printed())
        leave(status)

    os._exit = leave_with_note


def _printed() -> str:
    """Return the end of what the test printed: while it runs, both streams are files that pytest reads later."""
    parts = []
    for stream, name in ((1, "output"), (2, "error")):
        seen = os.fstat(stream)
        if stat.S_ISREG(seen.st_mode) and seen.st_size:
            text = os.pread(stream, PRINTED, max(0, seen.st_size - PRINTED)).decode("utf-8", "replace")
            parts.append(f"last on standard {name}:\n{text}\n")
    return "".join(parts)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    """Fail the run at once: the tests that the dead process was given would otherwise be waited for."""
    run = run_of(sched.config)
    assert run is not None
    note = _note_of(run, report.node.gateway.id)  # set by the plugin that calls this
    report.longrepr = f"{report.longrepr}\n{note.read_text(errors='replace')}"
    sched.config.hook.pytest_runtest_logreport(report=report)
    pytest.exit(f"the process of {crashitem} died", returncode=1)


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Let a test fail at its limit; should it go on all the same, its process ends a little later."""

    def fail(*_: object) -> None:
        pytest.fail(
            f"took longer than {settings.timeout:.0f} seconds; the threads were at:\n{_stacks()}", pytrace=False
        )

    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    told = item.config.stash.get(_NOTE, None) or 2  # standard error
    faulthandler.dump_traceback_later(settings.timeout + GRACE, exit=True, file=told)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer() -> bool:
    """Take the limit back."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    faulthandler.cancel_dump_traceback_later()
    return True


def _stacks() -> str:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        return file.read()


class _Running:
    """The tests that have begun and not ended, in all processes of the run."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._began.pop(nodeid, None)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Answer an interrupt in the handler itself: what it raises is lost where it meets a callback of a library."""
        leave = signal.getsignal(signal.SIGINT)

        def tell_and_leave(number: int, frame: FrameType | None) -> None:
            self._tell()
            if callable(leave):
                leave(number, frame)

        signal.signal(signal.SIGINT, tell_and_leave)

    def _tell(self) -> None:
        now = time.monotonic()
        for nodeid, began in self._began.items():
            print(f"\nstill running after {now - began:.0f} s: {nodeid}", file=sys.__stderr__, flush=True)
