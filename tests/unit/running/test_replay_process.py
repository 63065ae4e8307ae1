"""Processes of shares: a copy of the one that leads where that is safe, a fresh one elsewhere."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from stream_guard.running.replay import ProcessWorker

ROOT = Path(__file__).parents[3]
_marks: list[str] = []  # what the process that leads has said; a fresh one knows nothing of it


class _Reader:
    """Tells what its process knows, instead of a summary."""

    def summary(self) -> tuple[list[str], bool, bool]:
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        return _marks, ignored, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def _make() -> Any:
    return _Reader()


def _lead(way: str) -> None:
    """Start two processes, and print what they know."""
    _marks.append("led")
    signal.signal(signal.SIGTERM, lambda *_: None)
    ended = threading.Event()
    if way == "a thread":
        threading.Thread(target=ended.wait).start()
    workers = [ProcessWorker(_make, name=f"share {number}", may_copy=way != "forbidden") for number in range(2)]
    for worker in workers:
        worker.call("summary")
    print(*(worker.result() for worker in workers), signal.pthread_sigmask(signal.SIG_BLOCK, ()), sep="\n")
    for worker in reversed(workers):
        worker.close()
    ended.set()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every process is a fresh one")
@pytest.mark.parametrize(("way", "known"), [("alone", ["led"]), ("a thread", []), ("forbidden", [])])
def test_a_copy_is_made_only_of_a_process_with_one_thread_that_allows_it(way: str, known: list[str]) -> None:
    command = [sys.executable, "-m", "tests.unit.running.test_replay_process", way]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    knows = str((known, True, True))
    assert done.stdout.splitlines() == [knows, knows, "set()"]
    assert done.stderr == ""


if __name__ == "__main__":
    _lead(sys.argv[1])
