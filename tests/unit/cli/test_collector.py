"""Commands read many events: the collector of circles looks less often than Python lets it."""

from __future__ import annotations

import gc
import subprocess
import sys

from stream_guard.cli.process import YOUNG_OBJECTS, pass_over_loaded

PROGRAM = """
import atexit, gc, sys
from stream_guard.cli.process import main
atexit.register(lambda: print(gc.get_threshold()[0], gc.isenabled()))
sys.argv = ["stream-guard", "--version"]
main()
"""


def test_a_command_lets_the_collector_wait_for_more_objects() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"{YOUNG_OBJECTS} True"


def test_the_collector_passes_over_what_a_command_has_loaded() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(YOUNG_OBJECTS)
        pass_over_loaded()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_a_process_of_somebody_else_is_left_alone() -> None:
    frozen = gc.get_freeze_count()
    pass_over_loaded()
    assert gc.get_freeze_count() == frozen
