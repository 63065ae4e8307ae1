"""What a test must not leave behind: threads, processes, listening ports, signal handlers, variables and log settings.

The next test in the same process would meet them, and fail or hang for a reason that is not its own. So each test is
looked at after its last fixture has gone, and fails by its own name. What a fixture of several tests brings along stays
as long as the fixture, and so does what a library keeps for good once it was asked for (``FOR_GOOD``).
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests import processes

PATIENCE: Final = 30.0  # seconds for what was told to end and has not been given a core yet
SIGNALS: Final = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD]
FOR_GOOD: Final = ("tests.process_server", "multiprocessing.resource_tracker", "multiprocessing.forkserver")

NAMELESS_POOL: Final = "ThreadPoolExecutor-"  # a library's, which keeps it; ours have names
# Sinks keep the addresses they post to out of the log, for good: there may be secrets in them.
SILENCED: Final = ("logger 'httpx'", "logger 'urllib3'")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to look."""
    config.pluginmanager.register(Leftovers(), "leftovers")


class State:
    """What a test process has now: things that should end, and settings that should be as they were."""

    def __init__(self) -> None:
        self.things = {**_threads(), **_children(), **_copies(), **_ports()}
        self.settings = {**_handlers(), **_variables(), **_loggers()}

    def compared_to(self, before: State) -> dict[object, str]:
        """Return what is there and was not before, and which settings changed, in words."""
        found = {key: words for key, words in self.things.items() if key not in before.things}
        changed = {key for key, _ in before.settings.items() ^ self.settings.items()}
        return found | {key: key for key in sorted(changed) if _matters(key, before)}

    def adopt(self, before: State, after: State) -> None:
        """Take what came between two others as known."""
        self.things.update((key, words) for key, words in after.things.items() if key not in before.things)
        self.settings.update((key, value) for key, value in after.settings.items() if before.settings.get(key) != value)


def _matters(key: str, before: State) -> bool:
    """Whether a change counts. Loggers that a library brings along when it is imported are its own business."""
    return key not in SILENCED and (not key.startswith("logger") or key in before.settings)


def _threads() -> dict[object, str]:
    known = [thread for thread in threading.enumerate() if not thread.name.startswith(NAMELESS_POOL)]
    return {thread: f"thread {thread.name!r}" for thread in known}


def _children() -> dict[object, str]:
    lists = Path("/proc/self/task").glob("*/children")
    pids = [pid for each in lists for pid in _read(each).split()]
    return {f"process {pid}": f"process {pid}: {line}" for pid in pids if (line := _command_of(pid))}


def _command_of(pid: str) -> str:
    """Return the command of a process; empty for one that has ended, or that stays for good."""
    command = _read(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip() or _unnamed(pid)
    return "" if any(name in command for name in FOR_GOOD) else command[:200]


def _unnamed(pid: str) -> str:
    """Return what to call a process without a command: one that is just being started has none yet, and lives."""
    state = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return "" if not state or state[0] in "ZX" else "about to start"


def _copies() -> dict[object, str]:
    return {copy: f"process {copy.pid}: {copy.args!r}" for copy in list(processes.RUNNING) if copy.poll() is None}


def _ports() -> dict[object, str]:
    files = [int(file.name) for file in Path("/proc/self/fd").glob("*")]
    return {f"port {port}": f"listening port {port}" for file in files for port in _port_of(file)}


def _port_of(file: int) -> Iterator[int]:
    """Return the port that an open file listens on; none where it is something else."""
    try:
        if not stat.S_ISSOCK(os.fstat(file).st_mode):
            return
        # A copy: whose file it is may close it at any moment, and the number may then be another file's.
        copied = os.dup(file)
    except OSError:  # closed meanwhile
        return
    with socket.socket(fileno=copied) as opened:
        if opened.family in (socket.AF_INET, socket.AF_INET6) and opened.getsockopt(
            socket.SOL_SOCKET, socket.SO_ACCEPTCONN
        ):
            yield opened.getsockname()[1]


def _handlers() -> dict[str, object]:
    return {f"handler of {number.name}": signal.getsignal(number) for number in SIGNALS}


def _variables() -> dict[str, object]:
    return {f"variable {name}": value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def _loggers() -> dict[str, object]:
    known = [logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    return {f"logger {logger.name!r}": _log_settings(logger) for logger in (logging.root, *known)}


def _log_settings(logger: logging.Logger) -> tuple[object, ...]:
    handlers = [handler for handler in logger.handlers if not type(handler).__module__.startswith("_pytest")]
    return logger.level, logger.propagate, logger.disabled, tuple(handlers), tuple(logger.filters)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):  # ended meanwhile, or not Linux
        return ""


class Leftovers:
    """Looks after the tests of one process, as a plugin."""

    def __init__(self) -> None:
        self._known: State | None = None
        self._shared = 0  # fixtures of a module that are alive
        self._waiting: dict[object, str] = {}  # what may belong to them: it may stay as long as they do

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None]:
        """Note what there is before the first test."""
        self._known = self._known or State()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Take what a fixture of several tests brings along as given."""
        if fixturedef.scope == "function" or self._known is None:
            return (yield)
        before = State()
        try:
            return (yield)
        finally:
            self._known.adopt(before, State())
            self._shared += fixturedef.scope != "session"

    @pytest.hookimpl
    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Take the settings that such a fixture has put back as given, too."""
        if fixturedef.scope != "function" and fixturedef.cached_result is not None and self._known is not None:
            self._known.settings = State().settings
            self._shared -= fixturedef.scope != "session"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        """Look at what the test leaves, after its fixtures and everything else have put theirs away."""
        yield
        assert self._known is not None
        now = self._settled(self._known)
        found = {key: f"{item.nodeid} leaves behind: {words}" for key, words in now.compared_to(self._known).items()}
        self._known = now
        if self._shared > 0:
            self._waiting |= {key: found.pop(key) for key in list(found) if key in now.things}
        else:
            found |= {key: words for key, words in self._waiting.items() if key in now.things}
            self._waiting.clear()
        if found:
            pytest.fail("\n".join(found.values()), pytrace=False)

    def _settled(self, before: State) -> State:
        """Return what there is once what was told to end has ended, as far as it does."""
        expected = before.things.keys() - (set() if self._shared > 0 else self._waiting.keys())
        now = State()
        if self._shared > 0 or not now.things.keys() - expected:
            return now
        gc.collect()  # some threads end with the object that nobody holds any longer
        limit = time.monotonic() + PATIENCE
        while (now := State()).things.keys() - expected and time.monotonic() < limit:
            time.sleep(0.02)
        return now
