"""More processes over one recording: ``check --jobs`` with 50 rules, from the opening of the file to the findings.

Wall-clock time says little on a machine that others use too. The critical path does: the CPU time of the process that
took most, against that of the one process without shares. Starting a process is part of it.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from stream_guard.cli.judging import judge
from stream_guard.cli.sharing import Job
from stream_guard.running.assembly import Assembly
from stream_guard.settings import Settings
from tests.bench.builds import answer, builds
from tests.bench.workload import event_lines, policy_text

ROUNDS = 3
COUNTS = (1, 2, 4)
RULES = 50
TIMES = 10  # as many copies of the sample sessions, under names of their own


def measure(folder: Path, sessions: int = 2000) -> dict[str, Any]:
    """Return, for each number of processes, the least critical path and wall time, and both against one process."""
    file = folder / "recording.jsonl"
    lines = event_lines(sessions)
    with file.open("wb") as written:
        for copy in range(TIMES):
            begun = b'"refund-%d-0' % copy
            written.writelines(line.replace(b'"refund-0', begun) + b"\n" for line in lines)
    rows: dict[str, dict[str, float]] = {}
    with builds("tests.bench.jobs", str(file)) as sides:
        for _ in range(ROUNDS):
            for name in sides[""].ask("names"):
                for prefix, build in sides.items():
                    took = build.ask(name)
                    best = rows.setdefault(prefix + name, took)
                    rows[prefix + name] = {part: min(seconds, best[part]) for part, seconds in took.items()}
    for name, row in rows.items():
        alone = rows[f"{name.rpartition(' ')[0]} 1"]
        row["times_the_speed"] = alone["critical_path"] / row["critical_path"]
        row["by_the_clock"] = alone["wall"] / row["wall"]
    return {"events": len(lines) * TIMES, "cores": os.cpu_count(), **rows}


def _judge(file: Path, jobs: int) -> dict[str, float]:
    job = Job((str(file),), policy_text(RULES).encode(), Path("bench.json"), "auto", jobs, Settings())
    wall, own, others = time.monotonic(), time.process_time(), _children()
    with Assembly(job.settings) as assembly:
        judge(job, assembly)
    own, others = time.process_time() - own, _children() - others
    return {
        "critical_path": max(own, others / max(1, jobs - 1)),  # the others' shares are alike
        "cpu": own + others,
        "wall": time.monotonic() - wall,
    }


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    answer({f"jobs {jobs}": partial(_judge, Path(sys.argv[1]), jobs) for jobs in COUNTS})
