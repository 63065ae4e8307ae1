"""Workers as a test sees them: processes on a topic, killed and stopped at will, and what they left on the broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from stream_guard.demo.sessions import sample_events
from stream_guard.sessions.session import Row as StoredSession
from stream_guard.stream.rows import decode_progress, decode_session, session_prefix
from tests.kafka.cluster import Cluster, Row

PARTITIONS = 6
PATIENCE = 120.0


def sample_rows(sessions: int, *, open_every: int = 0) -> list[Row]:
    """The events of sample sessions as records of a topic; all sessions end, or some are left without their end."""
    events = list(sample_events(sessions))
    if open_every:
        left = {f"refund-{number:05d}" for number in range(0, sessions, open_every)}
        events = [event for event in events if event["kind"] != "session_end" or event["session_id"] not in left]
    else:
        ended = {event["session_id"] for event in events if event["kind"] == "session_end"}
        last = {event["session_id"]: event for event in events if event["session_id"] not in ended}
        events += [
            {"kind": "session_end", "event_id": f"{name}-end", "session_id": name, "time": event["time"] + 1.0}
            for name, event in last.items()
        ]
    return [Row(json.dumps(event).encode(), event["session_id"].encode()) for event in events]


class Fleet:
    """Workers of one group on one topic, and the topics they write to."""

    def __init__(self, cluster: Cluster, folder: Path, policy: Path, *, partitions: int = PARTITIONS) -> None:
        self.folder = folder
        self.policy = policy
        self.partitions = partitions
        self.move_to(cluster)
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._made = 0
        self._logs: dict[str, Path] = {}

    def move_to(self, cluster: Cluster) -> None:
        """Use topics on another cluster, before any worker is started."""
        self.cluster = cluster
        self.events = cluster.create(self.partitions)
        self.alerts = cluster.create(2)
        self.letters = cluster.create(1)
        self.group = f"group-{self.events}"

    def start(self, name: str = "", **settings: str) -> str:
        """Start a worker and return its name; a setting is written with two underscores for its dot."""
        self._made += 1
        name = name or f"worker-{self._made}"
        command = [sys.executable, "-m", "stream_guard.cli", "worker", self.cluster.url(self.events)]
        command += ["--policy", str(self.policy), "--alerts", f"kafka:{self.cluster.address}/{self.alerts}"]
        command += ["--dead-letters", f"{self.cluster.address}/{self.letters}"]
        command += ["--group", self.group, "--instance", name, "--no-serve"]
        chosen = {"worker__session_timeout": "6", "worker__poll_records": "200", **settings}
        environment = {f"STREAM_GUARD_{key.upper()}": value for key, value in chosen.items()}
        log = self._logs[name] = self.folder / f"{name}-{self._made}.log"
        with log.open("wb") as file:
            self.workers[name] = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, **environment})
        return name

    def kill(self, name: str) -> None:
        """Kill a worker without a word."""
        worker = self.workers.pop(name)
        worker.kill()
        worker.wait()

    def stop(self, name: str) -> None:
        """Ask a worker to stop and see that it does so in good order."""
        worker = self.workers.pop(name)
        while "a worker of group" not in self.said(name):  # before that, nobody listens to signals
            assert worker.poll() is None, self.said(name)
            time.sleep(0.05)
        worker.send_signal(signal.SIGTERM)
        code = worker.wait(60)
        assert code == 0, f"exit code {code}\n{self.said(name)}"

    def said(self, name: str) -> str:
        """What a worker has said so far."""
        return self._logs[name].read_text()

    def progress(self) -> int:
        """How many records have been judged, as the workers' states say."""
        done: dict[bytes, int] = {}
        for record in self._changelog():
            if record.value is not None and not record.key.startswith(session_prefix(record.partition)):
                done[record.key] = sum(offset + 1 for offset in decode_progress(record.value).applied.values())
        return sum(done.values())

    def wait_for(self, records: int) -> None:
        """Wait until that many records have been judged; AssertionError when nothing more happens."""
        end, before = time.monotonic() + PATIENCE, -1
        while (done := self.progress()) < records:
            if done > before:
                end, before = time.monotonic() + PATIENCE, done
            dead = [name for name, worker in self.workers.items() if worker.poll() is not None]
            assert not dead, f"{dead} ended\n" + "\n".join(map(self.said, dead))
            logs = "\n".join(f"{name}: {self.said(name)}" for name in self.workers)
            assert time.monotonic() < end, f"{done} of {records} records were judged\n{logs}"
            time.sleep(0.3 + records / 100_000)  # looking costs the machine something as well

    def alert_ids(self) -> Counter[str]:
        """The ids of the alerts, and how often each was sent."""
        return Counter(json.loads(record.value)["id"] for record in self.cluster.read(self.alerts))

    def sessions(self) -> dict[str, dict[str, Any]]:
        """The live sessions as they were written last: how many events each contains, and its rules' states."""
        found: dict[str, dict[str, Any]] = {}
        for record in self._changelog():
            prefix = session_prefix(record.partition)
            if not record.key.startswith(prefix):
                continue
            session_id = record.key[len(prefix) :].decode()
            found.pop(session_id, None)
            if record.value is not None and (state := decode_session(record.value).state):
                row = msgspec.msgpack.decode(state, type=StoredSession)
                found[session_id] = {"seq": row.seq, "turns": row.turns, "states": sorted(map(_plain, row.states))}
        return found

    def _changelog(self) -> list[Any]:
        try:
            return self.cluster.read(f"{self.group}-sessions-changelog")
        except TypeError:  # no worker has made it yet
            return []

    def close(self) -> None:
        """End what still runs."""
        for worker in self.workers.values():
            worker.kill()
            worker.wait()
        self.cluster.delete([f"{self.group}-sessions-changelog"])


def _plain(state: tuple[int, tuple[str, ...], msgspec.Raw]) -> tuple[int, tuple[str, ...], bytes]:
    tag, key, raw = state
    return tag, key, bytes(raw)
