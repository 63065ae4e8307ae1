"""What goes wrong in a test run is said by name, and soon: planted faults, each in a small run of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGINS = ("xdist.plugin", "pytest_timeout", "tests.run_folder", "tests.crashes", "tests.leftovers")
FAULTS = {
    "thread": (
        "threading.Thread(target=time.sleep, args=(600,), name='planted', daemon=True).start()",
        "thread 'planted'",
    ),
    "child": ("subprocess.Popen(['sleep', '600'])", ": sleep 600"),
    "port": ("KEPT.append(socket.create_server(('127.0.0.1', 0)))", "listening port "),
    "handler": ("signal.signal(signal.SIGTERM, lambda *_: None)", "handler of SIGTERM"),
    "variable": ("os.environ['PLANTED'] = 'yes'", "variable PLANTED"),
    "logger": ("logging.getLogger('planted').setLevel('DEBUG')", "logger 'planted'"),
}
PROGRAM = """
import logging, os, signal, socket, subprocess, threading, time, warnings
from tests import leftovers
leftovers.PATIENCE = 0.2
warnings.simplefilter("ignore", ResourceWarning)
KEPT = []
logging.getLogger("planted")

def test_before():
    pass

def test_planted():
    print("the last words")
    {fault}

def test_after():
    pass
"""

# Leaves a file in its folder when the process that leads the run has heard that a test began.
TELLS_STARTS = """
import pathlib, pytest

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Leader())

class Leader:
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logstart(self, nodeid):
        pathlib.Path(__file__).with_name(nodeid.rpartition("::")[2]).touch()
"""


def run_planted(folder: Path, fault: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run three tests, the second of them with this fault, and return what the run printed."""
    (folder / "test_it.py").write_text(PROGRAM.format(fault=fault))
    (folder / "pytest.ini").write_text("[pytest]\n")
    root = Path(__file__).parents[2]
    plugins = [word for name in ("no:cacheprovider", *PLUGINS) for word in ("-p", name)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_test_leaves_behind_fails_that_test_alone(tmp_path: Path, name: str) -> None:
    fault, said = FAULTS[name]
    done = run_planted(tmp_path, fault)
    assert done.returncode == 1
    assert "test_it.py::test_planted leaves behind: " in done.stdout
    assert said in done.stdout
    assert "3 passed, 1 error" in done.stdout


@pytest.mark.parametrize("processes", ["0", pytest.param("2", marks=pytest.mark.long)])
def test_a_test_that_hangs_fails_at_its_limit_and_shows_where(tmp_path: Path, processes: str) -> None:
    done = run_planted(tmp_path, "time.sleep(600)", "-n", processes, "--timeout", "2")
    assert done.returncode == 1
    assert "FAILED test_it.py::test_planted - Failed: took longer than 2 seconds" in done.stdout
    assert "in test_planted" in done.stdout
    assert "1 failed, 2 passed" in done.stdout


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("os._exit(0)", ["os._exit(0)", "the last words"]),
        pytest.param("os.kill(os.getpid(), signal.SIGSEGV)", ["Segmentation fault"], marks=pytest.mark.long),
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", [], marks=pytest.mark.long),
    ],
)
def test_a_process_that_dies_ends_the_run_with_the_name_of_its_test(
    tmp_path: Path, fault: str, said: list[str]
) -> None:
    done = run_planted(tmp_path, fault, "-n", "2", "--dist", "loadgroup")
    assert done.returncode == 1
    assert "crashed while running 'test_it.py::test_planted'" in done.stdout
    assert "the process of test_it.py::test_planted died" in done.stdout
    assert all(words in done.stdout for words in [*said, *(["in test_planted"] if said else [])])


@pytest.mark.long
def test_a_run_that_is_interrupted_says_which_tests_were_running(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(TELLS_STARTS)
    waits = f"while not os.path.exists({str(tmp_path / 'test_planted')!r}): time.sleep(0.01)"
    # Again after a while: what the signal raises is lost where it meets a callback of a library.
    done = run_planted(
        tmp_path, f"{waits}\n    while True: os.kill(os.getppid(), signal.SIGINT); time.sleep(120)", "-n", "2"
    )
    assert done.returncode == 2
    assert "s: test_it.py::test_planted" in done.stderr


@pytest.mark.long
def test_a_process_that_somebody_forks_may_leave_at_once(tmp_path: Path) -> None:
    fault = (
        "pid = os.fork()\n    if not pid: os._exit(3)\n    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3"
    )
    done = run_planted(tmp_path, fault, "-n", "2")
    assert "3 passed" in done.stdout
