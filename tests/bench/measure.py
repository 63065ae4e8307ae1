"""How a thing is measured: best of several rounds, all contenders in turn, CPU time."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

Work = Callable[[], object]


def best_of(contenders: Mapping[str, Work], rounds: int = 5) -> dict[str, float]:
    """Return the least CPU seconds of each contender; they take turns, so that noise meets all alike."""
    least = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, work in contenders.items():
            least[name] = min(least[name], cpu_seconds(work))
    return least


def cpu_seconds(work: Work) -> float:
    """Return the CPU seconds that the work takes once."""
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


def processor_seconds(pid: int) -> float:
    """Return the CPU seconds that another process has taken up to now."""
    return _seconds(_fields(pid))


def seconds_of_children(name: str) -> float:
    """Return the CPU seconds of all processes of a name that this one has started, itself or through others."""
    found = {int(entry.name): _fields(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}

    def is_ours(pid: int) -> bool:
        while pid in found and pid != os.getpid():
            pid = int(found[pid][2])
        return pid == os.getpid()

    return sum(_seconds(fields) for pid, fields in found.items() if name in fields[0] and is_ours(pid))


def _fields(pid: int) -> list[str]:
    """Return what the system says of a process: its name, state, parent and so on; of one that has ended, nothing."""
    try:
        head, _, rest = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")
    except OSError:
        return ["", "", "0", *["0"] * 20]
    return [head.partition("(")[2], *rest.split()]


def _seconds(fields: list[str]) -> float:
    return (int(fields[12]) + int(fields[13])) / os.sysconf("SC_CLK_TCK")
