"""One broker for a whole test run, however many processes it has.

The first process that needs a broker starts a keeper, which runs it. The process that began the run stops the keeper
at its end; a keeper also stops when that process is gone.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from tests.kafka.broker import PATIENCE, Broker

_ROOT: Final = Path(__file__).parents[2]


def join(folder: Path, beside: int, *, secure: bool) -> Broker:
    """Return the broker of a run; its keeper is started if nobody has done so, and ends with the process ``beside``."""
    note = folder / "broker.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not note.exists():
            _start_keeper(folder, beside, secure=secure)
            _wait_for(note, folder / "keeper.log")
    return Broker.noted(note)


def leave(folder: Path) -> None:
    """Stop the keeper of a run, if there is one, and wait for its end."""
    try:
        keeper = int(json.loads((folder / "broker.json").read_text())["pid"])
        os.kill(keeper, signal.SIGTERM)
    except (FileNotFoundError, ProcessLookupError):
        return
    end = time.monotonic() + 30
    while Path(f"/proc/{keeper}").exists() and not _is_zombie(keeper) and time.monotonic() < end:
        time.sleep(0.1)


def _start_keeper(folder: Path, beside: int, *, secure: bool) -> None:
    words = [sys.executable, "-m", "tests.kafka.broker", "keep"]
    words += ["--folder", str(folder / "broker"), "--beside", str(beside), *(["--secure"] if secure else [])]
    log = os.open(folder / "keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.posix_spawn(
            sys.executable,
            words,
            {**os.environ, "PYTHONPATH": str(_ROOT)},
            file_actions=[(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)],
            setsid=True,
        )
    finally:
        os.close(log)


def _wait_for(note: Path, log: Path) -> None:
    end = time.monotonic() + 2 * PATIENCE  # the storage is formatted first
    while not note.exists():
        if time.monotonic() > end or "Error" in log.read_text(errors="replace"):
            raise RuntimeError(f"the broker of the run did not start:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.1)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False
