"""Instructions that an event takes on each part of its way, counted by callgrind: times swing here, these do not.

``make bench-instructions`` prints them for both builds, beside what was kept last. CHANGE="what moved them" adds a line
to ``history.jsonl``; it is the subject of the commit that brings the line.
"""

from __future__ import annotations

import gc
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial, reduce
from itertools import count
from pathlib import Path
from threading import Event as Flag
from time import time
from typing import Any, Final, TypeAlias

from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, ToolCall
from stream_guard.ports import Record
from stream_guard.registry import Registry, build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.running.embedded import open_run
from stream_guard.settings import Settings
from tests.bench import guard, rates
from tests.bench.builds import SAFE_PATH, SITE, environment_of, is_compiled
from tests.bench.measure import Work
from tests.bench.workload import event_lines, policy
from tests.worker.partitions import open_partition, write

HISTORY: Final = Path(__file__).parent / "history.jsonl"
SESSIONS: Final = 100
WARM: Final = 300  # events before the counted ones: a plan is made when its tool is first seen
BATCH: Final = 250  # records between two snapshots of the worker

_NUMBERS: Final = count()
# Callgrind counts inside this C function only, and writes a file whenever it returns.
_COUNTED: Final = "functools_reduce"

Part: TypeAlias = Callable[[], tuple[Work, int]]
"""Prepares a piece of work, and says over how many events it goes."""


def measure() -> dict[str, dict[str, int]]:
    """Return the instructions for one event, by build and part."""
    counted = {"plain": count_parts(__name__, compiled=False)}
    if SITE.exists():
        counted["compiled"] = count_parts(__name__, compiled=True)
    return counted


def show(counted: Mapping[str, Mapping[str, int]], before: Mapping[str, Mapping[str, int]]) -> None:
    """Print a table, each number with its change since what was kept last."""
    for build, parts in counted.items():
        for part, number in parts.items():
            known = before.get(build, {}).get(part)
            change = f"{number / known - 1:+8.1%}" if known else ""
            print(f"{build:9} {part:28} {number:10,d} instructions an event {change}")


def history() -> Iterator[dict[str, Any]]:
    """Yield what was kept, the oldest first."""
    with HISTORY.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def last_kept() -> Mapping[str, Mapping[str, int]]:
    """Return what was kept last on this sort of machine with this Python, empty where nothing was."""
    here = _here()
    return next((row["counted"] for row in reversed(list(history())) if row["on"] == here), {})


def keep(change: str, counted: Mapping[str, Mapping[str, int]]) -> None:
    """Add a line to the history."""
    with HISTORY.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"change": change, "on": _here(), "counted": counted}) + "\n")


def _here() -> str:
    return f"CPython {platform.python_version()}, {platform.machine()}"


def count_parts(module: str, *, compiled: bool) -> dict[str, int]:
    """Run a module that calls ``be_counted`` under callgrind; return the instructions of each part for one event."""
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions are counted by valgrind: install it (Debian: apt-get install valgrind)")
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "counted"
        options = [f"--callgrind-out-file={written}", f"--toggle-collect={_COUNTED}", f"--dump-after={_COUNTED}"]
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", *options, sys.executable, *SAFE_PATH, "-m", module, folder],
            env={**environment_of(compiled=compiled), "PYTHONHASHSEED": "0"},
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise SystemExit(
                f"counting failed; is the compiled build out of date? `make compiled`\n{done.stderr[-4000:]}"
            )
        said = json.loads(done.stdout)
        if said["compiled"] is not compiled:
            raise AssertionError("the benchmark counts another build than it was told")
        events: dict[str, int] = said["events"]
        # Others use the function too, while they are imported or load a policy: the last files are ours.
        dumps = sorted(Path(folder).glob("counted.*"), key=lambda file: int(file.suffix[1:]))[-len(events) :]
        return {part: total(dump) // events[part] for part, dump in zip(events, dumps, strict=True)}


def total(dump: Path) -> int:
    """Return the number of instructions in a file of callgrind's."""
    for line in dump.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(("summary:", "totals:")):
            return int(line.split()[1])
    raise AssertionError(f"{dump} has no total: this Python hides its function {_COUNTED}")


def _parts(registry: Registry, folder: Path, opened: ExitStack) -> dict[str, Part]:
    """Return what is counted, by name."""
    lines = event_lines(SESSIONS)
    file = folder / "events.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    return {
        "msgspec alone": lambda: (partial(rates.decode_only, file), len(lines)),
        "decode": lambda: _warmed(_decoding(registry), _records(lines)),
        "sessions": lambda: _warmed(_feeding(registry, 0), _events(registry, lines)),
        "sessions and 10 rules": lambda: _warmed(_feeding(registry, 10), _events(registry, lines)),
        "sessions and 50 rules": lambda: _warmed(_feeding(registry, 50), _events(registry, lines)),
        "gate, 50 rules": lambda: _warmed(_checking(registry), guard.attempts(WARM + 500, "s")),
        "worker, 50 rules": lambda: _warmed(_folding(registry), _records(lines)),
        "lines to alerts, 10 rules": lambda: (_running(registry, file, 10, opened), len(lines)),
        "lines to alerts, 50 rules": lambda: (_running(registry, file, 50, opened), len(lines)),
    }


def _warmed(through: Callable[[Sequence[Any]], Iterable[object]], items: Sequence[Any]) -> tuple[Work, int]:
    """Put the first items through, and return the work of putting the others through."""
    drain: deque[object] = deque(maxlen=0)
    drain.extend(through(items[:WARM]))
    return lambda: drain.extend(through(items[WARM:])), len(items) - WARM


def _decoding(registry: Registry) -> Callable[[Sequence[Record]], Iterable[object]]:
    return partial(map, registry.decoders["native"]().decode)


def _feeding(registry: Registry, rules: int) -> Callable[[Sequence[Event]], Iterable[object]]:
    """Return the sessions and the rules alone, over events that are decoded."""
    feed = Judge(policy(rules, registry), mode="stream").feed
    return lambda events: map(feed, events)


def _checking(registry: Registry) -> Callable[[Sequence[ToolCall]], Iterable[object]]:
    return partial(map, guard.ticking(guard.policy(registry)).check)


def _folding(registry: Registry) -> Callable[[Sequence[Record]], Iterable[object]]:
    """Return the worker's loop without its client: records in, rows out."""
    rows: dict[bytes, bytes] = {}
    partition = open_partition(rows, policy(50, registry), "native", now=time)

    def fold(records: Sequence[Record]) -> Iterator[None]:
        for start in range(0, len(records), BATCH):
            partition.fold("events", records[start : start + BATCH], [])
            write(rows, partition.snapshot())
            yield

    return fold


def _running(registry: Registry, file: Path, rules: int, opened: ExitStack) -> Work:
    """Return a run that is open; what it makes of its policy is counted."""
    alerts = file.with_name(f"alerts-{next(_NUMBERS)}.jsonl")
    options = rates.run_options(registry, file, rules, alerts)
    return open_run(options, opened.enter_context(Assembly(Settings(), registry)), Flag()).runner.run


def _events(registry: Registry, lines: Sequence[bytes]) -> list[Event]:
    decode = registry.decoders["native"]().decode
    return [event for record in _records(lines) for event in decode(record)]


def _records(lines: Sequence[bytes]) -> list[Record]:
    return [Record(line, "events/0", number) for number, line in enumerate(lines)]


def _count_all(folder: Path) -> None:
    """Prepare every part, and let it be counted."""
    with ExitStack() as opened:
        registry = build_registry()
        parts = _parts(registry, folder, opened)
        # The first run imports what all need, and prepares what a process prepares once.
        _running(registry, folder / "events.jsonl", 50, opened)()
        # All are prepared before: loading a policy calls that function too.
        be_counted({name: prepare() for name, prepare in parts.items()})


def be_counted(ready: Mapping[str, tuple[Work, int]]) -> None:
    """Do each piece of work inside of the function that callgrind watches, and print over how many events it went."""
    gc.collect()
    gc.disable()
    for work, _ in ready.values():
        reduce(lambda _none, counted: counted(), [work], None)
    print(json.dumps({"compiled": is_compiled(), "events": {name: events for name, (_, events) in ready.items()}}))


if __name__ == "__main__":
    _count_all(Path(sys.argv[1]))
