"""One pattern in Apache Flink and here: ``A then B within five minutes`` per session, over the same file, on one core.

Flink comes from Maven Central (pom.xml), runs in a local cluster of its own with one slot, and does it in two ways: as
its pattern library does (cep), and with a function written by hand for this one pattern, which is the least that Flink
can do for it. It reads four fields of each event and counts the matches. We run ``check`` with the rule no_sequence,
which reads events whole and writes a report.

All are processes held to one core. The CPU time of a process is that of all its threads, those of Java's compiler and
collector among them. A file of one session tells what the start costs; ``events_per_cpu_s`` is without it,
``with_start`` is with it. All ways must find equally many.

``python -m tests.bench.flink EVENTS`` measures another number of events.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.builds import SAFE_PATH, SITE, environment_of
from tests.bench.workload import event_lines

EVENTS = 1_000_000
ROUNDS = 2
FIRST, THEN = "lookup_order", "ledger_query"  # every session has the first, about one in 28 the other
WAYS = ("cep", "by hand")
_HERE = Path(__file__).parent
_CHUNK = 2_000  # sessions that are made at a time
# Flink reaches into these since it is older than Java's modules.
_JAVA = ["java", *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("util", "lang"))]


class Taken(NamedTuple):
    """What one process took, and how often it found the pattern."""

    cpu: float
    wall: float
    found: int


def measure(cache: Path, folder: Path, events: int = EVENTS) -> dict[str, Any]:
    """Return events per second of CPU for each way, and how many times more ours are, or why that is not known."""
    missing = [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]
    if missing:
        return {"missing": f"{', '.join(missing)} cannot be found; install a JDK of version 17 or later, and Maven"}
    try:
        path = _fetch(cache)
    except subprocess.CalledProcessError as error:
        return {"missing": f"Flink could not be fetched or its job not be compiled: {error.stdout[-500:]}"}
    little, whole = _write(folder, events)
    policy = folder / "sequence.json"
    params = {"steps": [{"tool": FIRST}, {"tool": THEN}], "within_seconds": 300}
    rules = {"rules": [{"id": "sequence", "kind": "no_sequence", "params": params}]}
    policy.write_text(json.dumps(rules), encoding="utf-8")
    check = [sys.executable, *SAFE_PATH, "-m", "stream_guard.cli", "check", "--policy", str(policy)]
    ways = {f"flink, {way}": ([*_JAVA, "-cp", path, "SequenceJob", FIRST, THEN, way], False) for way in WAYS}
    ways |= {f"check{', compiled' * compiled}": (check, compiled) for compiled in (False, True)[: 1 + SITE.exists()]}
    taken: dict[str, list[tuple[Taken, Taken]]] = {way: [] for way in ways}
    with _one_core():
        for _ in range(ROUNDS):  # in turn, so that noise meets all alike
            for way, (command, compiled) in ways.items():
                started, done = (_run([*command, str(file)], compiled=compiled) for file in (little, whole))
                taken[way].append((started, done))
    return {"events": events, **_rows(taken, events)}


def _rows(taken: dict[str, list[tuple[Taken, Taken]]], events: int) -> dict[str, dict[str, float]]:
    found = {way: {done.found for _, done in rounds} for way, rounds in taken.items()}
    if len(set().union(*found.values())) != 1:
        raise RuntimeError(f"not all found equally many: {found}")
    rows: dict[str, dict[str, float]] = {}
    for way, rounds in taken.items():
        start = min(started.cpu for started, _ in rounds)
        least = min(done.cpu for _, done in rounds)
        rows[way] = {
            "start_cpu_s": start,
            "cpu_s": least,
            "wall_s": min(done.wall for _, done in rounds),
            "events_per_cpu_s": events / (least - start),
            "with_start": events / least,
            "found": rounds[0][1].found,
        }
    flinks = [f"flink, {way}" for way in WAYS]
    for way, row in rows.items():
        if way not in flinks:
            row |= {f"times {peer}": row["events_per_cpu_s"] / rows[peer]["events_per_cpu_s"] for peer in flinks}
            row |= {f"times {peer}, with start": row["with_start"] / rows[peer]["with_start"] for peer in flinks}
    return rows


def _fetch(cache: Path) -> str:
    """Return the class path of the job, after fetching and compiling what it is made of where that was not done yet."""
    sources = [_HERE / "pom.xml", _HERE / "SequenceJob.java"]
    folder = cache / sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:12]
    if not folder.is_dir():
        # Renamed when complete: a download that was cut off must not look like one that was not.
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        copy = [
            "mvn",
            "-q",
            "-B",
            "-f",
            str(sources[0]),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={partial}",
        ]
        build = ["javac", "-cp", f"{partial}/*", "-d", str(partial), str(sources[1])]
        for command in (copy, build):
            subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        partial.rename(folder)
    return os.pathsep.join((str(folder), f"{folder}/*"))


def _write(folder: Path, events: int) -> tuple[Path, Path]:
    """Write one session, and as many as there are events for, in order of time; no session has another's id."""
    little, whole = folder / "session.jsonl", folder / "events.jsonl"
    with whole.open("wb") as file:
        left, chunk = events, 0
        lines = event_lines(_CHUNK)
        while left:
            shift = chunk * 86_400  # so that each chunk is a day later
            for line in lines[:left]:
                file.write(_moved(line, chunk, shift))
            left -= min(left, len(lines))
            chunk += 1
    first = json.loads(lines[0])["session_id"].encode()
    little.write_bytes(b"".join(line + b"\n" for line in lines if b'"%b"' % first in line))
    return little, whole


def _moved(line: bytes, chunk: int, shift: float) -> bytes:
    """Return the line for another chunk: later, and with ids of its own."""
    line = line.replace(b'"refund-0', b'"refund-%d-0' % chunk).replace(b'"ev-0', b'"ev-%d-0' % chunk)
    before, key, after = line.partition(b'"time": ')
    at, comma, rest = after.partition(b",")
    return b"%b%b%.3f%b%b\n" % (before, key, float(at) + shift, comma, rest)


def _run(command: Sequence[str], *, compiled: bool) -> Taken:
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=environment_of(compiled=compiled), stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        output.seek(0)
        text = output.read().decode()
    counted = re.search(r"(\d+) findings|^(\d+)$", text, re.MULTILINE)
    if counted is None:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {text[-2000:]}")
    return Taken(usage.ru_utime + usage.ru_stime, wall, int(counted[1] or counted[2]))


@contextmanager
def _one_core() -> Iterator[None]:
    """Hold the processes that are started meanwhile to one core; Java chooses its threads by what it may use."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
