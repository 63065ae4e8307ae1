"""How a thing is measured: best of several rounds, all contenders in turn, CPU time."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

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
