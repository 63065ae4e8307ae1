"""Worker processes for tests: start, kill and stop them, and read what they wrote to the broker."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import msgspec
from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError

from stream_guard.judge.rows import StoredSession
from stream_guard.worker.rows import decode_progress, decode_session, progress_key, session_of, session_prefix
from tests import processes
from tests.kafka.cluster import Cluster, Row

PARTITIONS = 6
PATIENCE = 120.0


class Fleet:
    """Workers of one group on one topic, and the topics they write to."""

    def __init__(self, cluster: Cluster, folder: Path, policy: Path, *, partitions: int = PARTITIONS) -> None:
        self.folder = folder
        self.policy = policy
        self.partitions = partitions
        self.move_to(cluster)
        self._shared = cluster
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.restarts: int | None = None  # set to 0: workers that end with code 3 are started again, and counted
        self._starts: dict[str, Callable[[], str]] = {}
        self._made = 0
        self._logs: dict[str, Path] = {}
        self._table: dict[bytes, tuple[int, bytes]] = {}  # the rows of the changelog, with their partition
        self._read: dict[int, int] = {}

    def move_to(self, cluster: Cluster) -> None:
        """Use topics on another cluster, before any worker is started."""
        self.cluster = cluster
        self.events = cluster.create(self.partitions, max_message_bytes=str(32 << 20))
        self.alerts = cluster.create(2)
        self.letters = cluster.create(1)
        self.group = f"group-{self.events}"

    def move_group(self, name: str) -> None:
        """Go on as another group, while no worker runs."""
        assert not self.workers
        self.group = name
        self._table, self._read = {}, {}

    def start(
        self,
        name: str = "",
        *,
        options: Sequence[str] = ("--no-serve",),
        at: str = "",
        alerts: str = "",
        query: str = "",
        process: Any = None,
        **settings: str,
    ) -> str:
        """Start a worker and return its name; a setting is written with two underscores for its dot.

        ``process`` has options of ``processes.start``.
        """
        self._made += 1
        name = name or f"worker-{self._made}"
        given: dict[str, Any] = {"options": options, "at": at, "alerts": alerts, "query": query, "process": process}
        self._starts[name] = partial(self.start, name, **given, **settings)
        address = at or self.cluster.address
        command = ["worker", f"kafka://{address}/{self.events}{query}"]
        command += ["--policy", str(self.policy), "--alerts", alerts or f"kafka:{address}/{self.alerts}"]
        command += ["--dead-letters", f"{address}/{self.letters}"]
        command += ["--group", self.group, "--instance", name, *options]
        chosen = {"worker__session_timeout": "6", "worker__poll_records": "200", **settings}
        environment = {f"STREAM_GUARD_{key.upper()}": value for key, value in chosen.items()}
        log = self._logs[name] = self.folder / f"{name}-{self._made}.log"
        with log.open("wb") as file:
            extra = {"stdout": file, "stderr": file, **(process or {})}
            self.workers[name] = processes.start(*command, **extra | {"env": {**environment, **extra.get("env", {})}})
        return name

    def kill(self, name: str) -> None:
        """Kill a worker with SIGKILL."""
        worker = self.workers.pop(name)
        worker.kill()
        worker.wait()

    def fill_while_workers_die(self, rows: Sequence[Row], kills: int, dice: Random) -> None:
        """Write rows while three workers read them; one after the other is killed at a random moment and comes back."""
        names = [self.start() for _ in range(3)]
        step = len(rows) // (kills + 1)
        for number in range(kills):
            filling = Thread(target=self.cluster.fill, args=(self.events, rows[number * step : (number + 1) * step]))
            filling.start()
            time.sleep(dice.uniform(0.3, 1.0))  # the random moment
            name = dice.choice(names)
            self.kill(name)
            self.start(name)
            filling.join()
        self.cluster.fill(self.events, rows[kills * step :])

    def stop(self, name: str) -> None:
        """Stop a worker with SIGTERM; it must exit with 0."""
        self.wait_until(lambda: "a worker of group" in self.log_of(name))  # before that, it has no signal handler
        code = self.leave(name)
        assert code == 0, f"exit code {code}\n{self.log_of(name)}"

    def leave(self, name: str) -> int:
        """Send a worker SIGTERM and return its exit code."""
        worker = self.workers.pop(name)
        worker.send_signal(signal.SIGTERM)
        return worker.wait(60)

    def end_of(self, name: str) -> int:
        """Wait until a worker has ended by itself and return its exit code."""
        code = self.workers[name].wait(PATIENCE)
        del self.workers[name]
        return code

    def log_of(self, name: str) -> str:
        """The log of a worker so far."""
        return self._logs[name].read_text()

    def url(self, name: str) -> str:
        """The address of the status server of a worker that was started with ``--serve``."""
        self.wait_until(lambda: "metrics at " in self.log_of(name))
        (found,) = re.findall(r"metrics at (\S+)/metrics", self.log_of(name))
        return str(found)

    def wait_until(self, holds: Callable[[], object], within: float = PATIENCE) -> None:
        """Wait until something holds, as long as all workers run."""
        end = time.monotonic() + within
        while not holds():
            self._check_workers()
            assert time.monotonic() < end, "\n".join(f"{name}: {self.log_of(name)}" for name in self.workers)
            time.sleep(0.1)

    def _check_workers(self) -> None:
        dead = [name for name, worker in self.workers.items() if worker.poll() is not None]
        if self.restarts is not None:
            # As a process manager does: this code says that nothing is lost and that a start helps.
            for name in [name for name in dead if self.workers[name].poll() == 3]:
                print(f"{name} ended: {self.log_of(name)[-2000:]}")
                self.restarts += 1
                self._starts[name]()
                dead.remove(name)
        assert not dead, f"{dead} ended\n" + "\n".join(map(self.log_of, dead))

    def progress(self, reader: KafkaConsumer | None = None) -> int:
        """The number of applied records, from the progress rows."""
        return sum(
            offset + 1
            for key, (partition, row) in self.rows(reader).items()
            if key == progress_key(partition)
            for offset in decode_progress(row).applied.values()
        )

    def wait_for(self, records: int, patience: float = PATIENCE) -> None:
        """Wait until that many records are applied; AssertionError when there is no more progress."""
        end, before = time.monotonic() + patience, -1
        with self.cluster.reader() as reader:
            while (done := self.progress(reader)) < records:
                if done > before:
                    end, before = time.monotonic() + patience, done
                self._check_workers()
                logs = "\n".join(f"{name}: {self.log_of(name)}" for name in self.workers)
                assert time.monotonic() < end, f"{done} of {records} records are applied\n{logs}"
                time.sleep(0.6)

    def wait_for_all(self, *more: str) -> None:
        """Wait until all offsets are committed, of the events and of the group's topics with such endings."""
        topics = [self.events, *(f"{self.group}-{ending}" for ending in more)]
        end, before = time.monotonic() + PATIENCE, -1
        while left := self.cluster.uncommitted(self.group, topics):
            if left != before:
                end, before = time.monotonic() + PATIENCE, left
            self._check_workers()
            logs = "\n".join(f"{name}: {self.log_of(name)}" for name in self.workers)
            assert time.monotonic() < end, f"{left} records are left\n{logs}"
            time.sleep(0.5)

    def alert_ids(self) -> Counter[str]:
        """The ids of the alerts, and how often each was sent."""
        return Counter(alert["id"] for alert in self.sent())

    def sent(self) -> list[dict[str, Any]]:
        """The alerts as they were sent, repeats included."""
        return [json.loads(record.value) for record in self.cluster.read(self.alerts)]

    def dead_letters(self) -> set[tuple[str, int]]:
        """The records that became dead letters: topic and partition, and offset."""
        found = (dict(record.headers) for record in self.cluster.read(self.letters))
        return {(one["stream_guard_origin"].decode(), int(one["stream_guard_offset"])) for one in found}

    def sessions(self) -> dict[str, dict[str, Any]]:
        """The live sessions as they were written last: how many events each contains, and its rules' states."""
        return live_sessions(self.rows())

    def rows(self, reader: KafkaConsumer | None = None) -> dict[bytes, tuple[int, bytes]]:
        """The table as the changelog has it now."""
        try:
            fresh = self.cluster.read(f"{self.group}-sessions-changelog", self._read, reader)
        except TypeError:  # no worker has made it yet
            fresh = []
        except KafkaTimeoutError:  # too few of its replicas are there
            fresh = []
        for record in fresh:
            if record.value is None:
                self._table.pop(record.key, None)
            else:
                self._table[record.key] = (record.partition, record.value)
        return self._table

    def close(self) -> None:
        """Kill the workers that still run."""
        for worker in self.workers.values():
            worker.kill()
            worker.wait()
        if self.cluster is self._shared:  # topics on a broker of the test's own are removed with it
            self.cluster.delete([f"{self.group}-{ending}" for ending in ("sessions-changelog", "rekeyed", "spanning")])


def live_sessions(rows: Mapping[bytes, tuple[int, bytes]]) -> dict[str, dict[str, Any]]:
    """The live sessions in rows, each with its partition: how many events each contains, and its rules' states."""
    found: dict[str, dict[str, Any]] = {}
    for key, (partition, value) in rows.items():
        if key.startswith(session_prefix(partition)) and (state := decode_session(value).state):
            row = msgspec.msgpack.decode(state, type=StoredSession)
            if row.resting:  # ended as idle, and remembered in case that its next event shows otherwise
                continue
            states = sorted(map(_plain, row.states))
            found[session_of(key)] = {"seq": row.seq, "turns": row.turns, "states": states}
    return found


def _plain(state: tuple[int, tuple[str, ...], msgspec.Raw]) -> tuple[int, tuple[str, ...], bytes]:
    tag, key, raw = state
    return tag, key, bytes(raw)
