"""How a process of the command line ends."""

from __future__ import annotations

import subprocess
import sys

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
