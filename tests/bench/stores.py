"""What a check costs that is stored before it is answered: ``python -m tests.bench.stores``."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any

from stream_guard.guard.inline import Guard
from stream_guard.judge.spec import Policy
from stream_guard.registry import build_registry
from stream_guard.storage.shared import SharedStore
from stream_guard.storage.stores import CheckpointStore
from tests.bench.guard import attempts, policy
from tests.history.postgres import started

EARLY, LATE, MEASURED = 20, 900, 60  # checks before the measured ones


def measure(judged_by: Policy, open_store: Callable[[], Any], written: Callable[[Any], int]) -> dict[str, str]:
    """Return microseconds by the clock and of CPU, and bytes written, of a check early and late in its session."""
    found = {}
    for name, before in (("early", EARLY), ("late", LATE)):
        with closing(open_store()) as store:
            guard = Guard(judged_by, store=store)
            calls = list(attempts(before + MEASURED, f"{name}-{time.time()}"))
            for call in calls[:before]:
                guard.check(call)
            begun, wall, cpu = written(store), [], []
            for call in calls[before:]:
                clock, own = time.perf_counter(), time.thread_time()
                guard.check(call)
                wall.append(time.perf_counter() - clock)
                cpu.append(time.thread_time() - own)
            size = (written(store) - begun) // MEASURED
            found[name] = f"{1e6 * median(wall):6.0f} us, {1e6 * median(cpu):5.0f} us of CPU, {size:6d} bytes"
    return found


def main() -> None:
    """Measure a file and a database."""
    judged_by = policy(build_registry())
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        server = opened.enter_context(started(synced=True))

        def in_file() -> CheckpointStore:
            store = CheckpointStore(folder / f"{time.time()}.db", synced=True)
            store.connection().execute("PRAGMA wal_autocheckpoint = 0")  # its log only grows, and can be measured
            return store

        def log_of_file(store: CheckpointStore) -> int:
            return Path(f"{store.path}-wal").stat().st_size

        def log_of_server(store: SharedStore) -> int:
            return int(store._run("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")[0][0])

        for name, figures in (
            ("file", measure(judged_by, in_file, log_of_file)),
            ("Postgres", measure(judged_by, lambda: SharedStore(server.address), log_of_server)),
        ):
            for when, text in figures.items():
                print(f"{name:9} {when:6} {text}")


if __name__ == "__main__":
    main()
