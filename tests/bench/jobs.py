"""More processes over one recording: ``check --jobs`` with 50 rules.

Wall-clock time, and CPU time of processes that run beside each other, say little on a machine that others use too. So
each share is also judged alone, one after the other, and the longest of them is held against the whole: the critical
path, without the start of the processes.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from stream_guard.cli.judging import judge
from stream_guard.cli.sharing import Job, open_reader
from stream_guard.decoding.selection import Share
from stream_guard.running.assembly import Assembly
from stream_guard.settings import Settings
from tests.bench.builds import answer, builds
from tests.bench.measure import cpu_seconds
from tests.bench.workload import event_lines, policy_text

ROUNDS = 3
COUNTS = (1, 2)
RULES = 50
_ALL = 10**9  # records


def measure(folder: Path, sessions: int = 5000) -> dict[str, Any]:
    """Return, for each number of processes, the least critical path and wall time, and both against one process."""
    file = folder / "recording.jsonl"
    lines = event_lines(sessions)
    with file.open("wb") as written:
        written.writelines(line + b"\n" for line in lines)
    rows: dict[str, dict[str, float]] = {}
    with builds("tests.bench.jobs", str(file)) as sides:
        for _ in range(ROUNDS):
            for name in sides[""].ask("names"):
                for prefix, build in sides.items():
                    took = build.ask(name)
                    best = rows.setdefault(prefix + name, took)
                    rows[prefix + name] = {part: min(seconds, best[part]) for part, seconds in took.items()}
    for row in rows.values():  # the least of each share first: one that was disturbed says nothing of the others
        row["critical_path"] = max(seconds for part, seconds in row.items() if part.startswith("share"))
    for name, row in rows.items():
        alone = rows[f"{name.rpartition(' ')[0]} 1"]
        row["times_the_speed"] = alone["critical_path"] / row["critical_path"]
        row["by_the_clock"] = alone["wall"] / row["wall"]
    return {"events": len(lines), "cores": os.cpu_count(), **rows}


def _take(file: Path, jobs: int) -> dict[str, float]:
    job = Job((str(file),), policy_text(RULES).encode(), Path("bench.json"), "auto", jobs, Settings())
    began = time.monotonic()
    with Assembly(job.settings) as assembly:
        judge(job, assembly)
    wall = time.monotonic() - began
    with Assembly(job.settings) as assembly:
        shares = {
            f"share {number}": cpu_seconds(partial(_judge_share, job, number, assembly)) for number in range(jobs)
        }
    return {**shares, "wall": wall}


def _judge_share(job: Job, number: int, assembly: Assembly) -> None:
    reader = open_reader(job, Share(number, job.jobs), assembly)
    reader.advance(_ALL)
    reader.finish()


if __name__ == "__main__":
    answer({f"jobs {jobs}": partial(_take, Path(sys.argv[1]), jobs) for jobs in COUNTS})
