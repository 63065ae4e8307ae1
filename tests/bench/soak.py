"""Hours at a constant rate: does anything grow that should stay as it is?

    python -m tests.bench.soak --hours 2 --rate 300

One broker, one worker with its page, one gate with its page. Sessions begin and end, and one in ten is left open and
ends as idle. Every few seconds it is noted what each process holds and how long alerts took. After the first quarter,
each figure must stay flat: what a straight line gains over the rest must lie within the scatter around that line.
Writes figures and plots to ``.cache/soak.json`` and ``.cache/soak.svg``.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import numpy as np
from kafka import KafkaConsumer, KafkaProducer

from stream_guard.cli.demo import write_samples
from stream_guard.demo.sessions import sample_events
from tests import plain_http
from tests.bench.soak_page import plot, table
from tests.integration.test_serve import serving
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster
from tests.worker.fleet import Fleet

ROOT: Final = Path(__file__).parents[2]
GATE_POLICY: Final = """
sessions: {idle: 10m}
rules: [{id: few, kind: max_calls, params: {tool: look, n: 5}, then: block}]
"""
ASKS_A_SECOND: Final = 5
OPEN: Final = 200  # sessions at a time
SHOWN: Final = 500  # sessions whose events a page keeps: the first quarter reaches them, and not the default of 2,000
SAMPLES: Final = 240
# What a broker keeps of rows that were replaced goes by its segments: small ones, so that hours show what days do.
CHANGELOG: Final = {
    "cleanup_policy": "compact",
    "segment_bytes": str(4 << 20),
    "segment_ms": "60000",
    "min_cleanable_dirty_ratio": "0.2",
    "delete_retention_ms": "60000",
}


def sessions() -> Iterator[Iterator[dict[str, Any]]]:
    """Endless sessions, each with a name of its own; one in ten has no end."""
    scripts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in sample_events(40):
        scripts[event["session_id"]].append(event)
    number = 0
    while True:
        for name, script in scripts.items():
            number += 1
            ends = number % 10
            text = json.dumps([event for event in script if ends or event["kind"] != "session_end"])
            yield iter(json.loads(text.replace(name, f"soak-{number:08d}").replace('"ev-', f'"ev-{number}-')))


class Load:
    """Sends events at a constant rate, each with the time at which it is sent."""

    def __init__(self, cluster: Cluster, topic: str, rate: float) -> None:
        self._producer = KafkaProducer(bootstrap_servers=cluster.address, linger_ms=5)
        self._topic, self._rate = topic, rate
        self.sent = 0

    def run(self, over: Event) -> None:
        """Send until it is over."""
        made = sessions()
        ring = deque(next(made) for _ in range(OPEN))
        begun = time.monotonic()
        while not over.wait(max(0.0, begun + self.sent / self._rate - time.monotonic())):
            event = next(ring[0], None)
            if event is None:
                ring[0] = next(made)
                continue
            ring.rotate(1)
            event["time"] = time.time()
            self._producer.send(self._topic, json.dumps(event).encode(), event["session_id"].encode())
            self.sent += 1
        self._producer.close()


class Delays:
    """Reads the alerts as they come; a delay is the time from an event to its alert's arrival here."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._reader = KafkaConsumer(topic, bootstrap_servers=cluster.address, auto_offset_reset="earliest")
        self._new: list[float] = []

    def run(self, over: Event) -> None:
        """Read until it is over."""
        while not over.is_set():
            for records in self._reader.poll(timeout_ms=500).values():
                now, found = time.time(), [json.loads(record.value) for record in records]
                # What a session lacks that never ends is found when it is idle, minutes after its last event.
                self._new += [now - alert["data"]["time"] for alert in found if not alert["subject"].endswith("0")]
        self._reader.close()

    def take(self) -> list[float]:
        """What arrived since the last look."""
        taken, self._new = self._new, []
        return taken


class Questions:
    """Asks the gate at a constant rate, in sessions that come and go."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._took: list[float] = []

    def run(self, over: Event) -> None:
        """Ask until it is over."""
        number = 0
        with plain_http.client(base_url=self._url, timeout=60) as client:
            while not over.wait(1 / ASKS_A_SECOND):
                body = {"session_id": f"s{number // 8}", "event_id": f"e{number}", "call_id": f"c{number}"}
                began = time.perf_counter()
                client.post("/v1/check", json={**body, "tool": "look", "agent": "bot"}).raise_for_status()
                self._took.append(time.perf_counter() - began)
                number += 1

    def take(self) -> list[float]:
        """The seconds of the answers since the last look."""
        taken, self._took = self._took, []
        return taken


def held(pid: int) -> dict[str, float]:
    """What a process holds: memory in MB, files, threads."""
    status = Path(f"/proc/{pid}/status").read_text()
    return {
        "memory MB": int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024,
        "files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
        "threads": int(re.findall(r"Threads:\s+(\d+)", status)[0]),
    }


def drift(times: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return what a straight line through the values gains over the time, and the scatter around it (two sigma)."""
    at, level = np.asarray(times), np.asarray(values)
    there = np.isfinite(level)  # a short while without an alert has no percentile
    slope, start = np.polyfit(at[there], level[there], 1)
    rest = level[there] - (slope * at[there] + start)
    return float(slope * (times[-1] - times[0])), float(2 * rest.std())


def is_flat(times: Sequence[float], values: Sequence[float]) -> bool:
    """Whether a figure stays as it is after the first quarter: within its scatter, or a fiftieth of its level."""
    quarter = len(times) // 4
    gain, scatter = drift(times[quarter:], values[quarter:])
    return abs(gain) <= max(scatter, float(np.nanmean(values[quarter:])) / 50)


def percentile(seconds: Sequence[float], share: float) -> float:
    """The percentile in milliseconds."""
    return float(np.percentile(seconds, share)) * 1000 if seconds else float("nan")


def sample(looks: dict[str, Callable[[], dict[str, float]]], seconds: float) -> dict[str, list[float]]:
    """Look at everything again and again."""
    series: dict[str, list[float]] = defaultdict(list)
    begun = time.monotonic()
    for number in range(1, SAMPLES + 1):
        time.sleep(max(0.0, begun + number * seconds / SAMPLES - time.monotonic()))
        series["seconds"].append(time.monotonic() - begun)
        for who, look in looks.items():
            for what, value in look().items():
                series[f"{who}: {what}"].append(value)
        if number % 20 == 0:
            print({name: round(values[-1], 1) for name, values in series.items()}, flush=True)
    return dict(series)


def soak(folder: Path, rate: float, seconds: float) -> dict[str, list[float]]:
    """Start everything, let the time pass, and return the series of figures."""
    _, policy = write_samples(folder, 1)
    policy.write_text(policy.read_text().replace("idle: 30m", "idle: 2m"))
    with ExitStack() as opened:
        broker = opened.enter_context(Broker(folder / "broker"))
        cluster = Cluster(broker.address(), "soak")
        fleet = opened.enter_context(closing(Fleet(cluster, folder, policy)))
        fleet.cluster.create(fleet.partitions, f"{fleet.group}-sessions-changelog", **CHANGELOG)
        history = {"page__port": "0", "history__url": str(folder / "history.db"), "page__sessions": str(SHOWN)}
        name = fleet.start(options=("--no-serve", "--page"), process={"fresh": True}, **history)
        fleet.wait_until(lambda: "page at " in fleet.log_of(name))
        [page] = re.findall(r"page at (http://\S+)/", fleet.log_of(name))
        (folder / "gate").mkdir()
        store = ("--checkpoint", str(folder / "gate" / "sessions.db"))
        shown = {"STREAM_GUARD_PAGE__SESSIONS": str(SHOWN)}
        gate = opened.enter_context(serving(folder / "gate", *store, policy=GATE_POLICY, **shown))
        load, delays, questions = (
            Load(cluster, fleet.events, rate),
            Delays(cluster, fleet.alerts),
            Questions(gate.url),
        )
        over = Event()
        threads = [Thread(target=part.run, args=(over,)) for part in (load, delays, questions)]
        for thread in threads:
            thread.start()
            opened.callback(thread.join)
        opened.callback(over.set)

        def alerts() -> dict[str, float]:
            new = delays.take()
            return {"p50 ms": percentile(new, 50), "p99 ms": percentile(new, 99)}

        def answers() -> dict[str, float]:
            new = questions.take()
            return {**held(gate.process.pid), "p50 ms": percentile(new, 50), "p99 ms": percentile(new, 99)}

        def topic() -> dict[str, float]:
            fleet.wait_until(lambda: True)  # the worker still runs
            plain_http.get(f"{page}/", timeout=60).raise_for_status()
            plain_http.get(f"{gate.url}/", timeout=60).raise_for_status()
            files = (folder / "broker" / "data").glob(f"{fleet.group}-sessions-changelog-*/*.log")
            return {"MB": sum(file.stat().st_size for file in files) / 2**20}

        looks = {"worker": lambda: held(fleet.workers[name].pid), "alerts": alerts, "gate": answers, "changelog": topic}
        return sample(looks, seconds)


def main() -> int:
    """Run it and say what is not flat."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--rate", type=float, default=300.0, help="events a second")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        series = soak(Path(folder), given.rate, given.hours * 3600)
    times = series.pop("seconds")
    figures = {
        name: {"values": values, "drift": drift(times, values), "flat": is_flat(times, values)}
        for name, values in series.items()
    }
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    (cache / "soak.json").write_text(json.dumps({"seconds": times, **figures}))
    (cache / "soak.svg").write_text(plot(times, series))
    print(table(times, series, {name: bool(figure["flat"]) for name, figure in figures.items()}))
    return 0 if all(figure["flat"] for figure in figures.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
