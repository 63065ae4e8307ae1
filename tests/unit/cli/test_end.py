"""How a process of the command line ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import atexit, sys, threading, time
from stream_guard.cli.process import main
atexit.register(print, "taken down")
threading.Thread(target=time.sleep, args=(600,), daemon={waits}).start() if {waits} else None
sys.argv = ["stream-guard", *{words}]
main()
"""


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["check", "--nonsense"], 2)])
@pytest.mark.parametrize("waits", [False, True])
def test_a_thread_that_still_waits_never_sees_python_taken_down(words: list[str], code: int, waits: bool) -> None:
    program = PROGRAM.format(waits=waits, words=words)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert ("taken down" in done.stdout) is not waits
    assert done.stdout or done.stderr


FULL_DISK = """
import resource, sys
from stream_guard.cli.process import main
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
sys.argv = ["stream-guard", *{words}]
main()
"""


@pytest.mark.parametrize(
    "words",
    [
        ["lint", "no-such-policy.yaml"],
        ["check", "TRACES", "--policy", "POLICY"],
        ["worker", "kafka://127.0.0.1:1/events", "--policy", "POLICY", "--group", "g", "--no-serve"],
    ],
)
def test_the_exit_code_is_no_verdict_where_nothing_can_be_written(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("rules: []")
    (tmp_path / "traces.jsonl").write_text('{"kind": "user_message", "session_id": "s", "text": "hello"}')
    places = {"POLICY": str(tmp_path / "policy.yaml"), "TRACES": str(tmp_path / "traces.jsonl")}
    program = FULL_DISK.format(words=[places.get(word, word) for word in words])
    environment = {**os.environ, "STREAM_GUARD_KAFKA__PATIENCE": "0.1"}
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run([sys.executable, "-c", program], stdout=log, stderr=log, env=environment, check=False)
    assert done.returncode == 3
    assert not (tmp_path / "log").stat().st_size


PRINTING = """
import sys, threading, time
from stream_guard.cli import app
from stream_guard.cli.process import main
threading.Thread(target=time.sleep, args=(600,), daemon=True).start() if {waits} else None
app.run_command_line = lambda: (print("found"), sys.exit({code}))
main()
"""


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("code", [0, 1])
def test_what_was_printed_and_cannot_be_written_is_no_verdict(code: int, waits: bool) -> None:
    program = [sys.executable, "-c", PRINTING.format(waits=waits, code=code)]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}  # it is written when the process ends
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, env=buffered, check=False)
    assert done.returncode == 3
