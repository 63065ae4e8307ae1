"""What a rate of events takes: cores, partitions, bandwidth, disk and money.

    python -m tests.bench.sizing --check        # the model beside 1, 2 and 4 workers on a real broker
    python -m tests.bench.sizing --rate 1000000 # what that rate takes, by the model

The first writes what it measured to ``.cache/sizing.json``, and the second takes its constants from there; without the
file it takes those that are committed here.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from stream_guard.policy.convert import to_yaml
from stream_guard.registry import build_registry
from tests.bench.fleet_model import WINDOW, Behind, Costs, drain, keep_up
from tests.bench.workload import event_lines, policy
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row
from tests.worker.fleet import Fleet

RESULTS: Final = Path(".cache") / "sizing.json"
RULES: Final = 50
PARTITIONS: Final = 8
SESSIONS: Final = 20_000
WORKERS: Final = (1, 2, 4)
# One run on two cores with nothing beside it: the clone's worker, 50 rules, events of 800 bytes.
MEASURED: Final = Costs(
    worker_us=74.3,
    wait_us=0.0,
    broker_us=8.1,
    event_bytes=829.0,
    row_bytes=19.2,
    alerts=0.0052,
    session_bytes=4_489.0,
)
WHEEL: Final = 17.7 / 38.9  # of the clone's CPU for an event, by ``make bench-kafka``
# Amazon's list for us-east-1, on demand, dollars: cores of c7g and m7g an hour, a GB of gp3 a month and between zones.
PRICES: Final = {"worker core": 0.0363, "broker core": 0.0408, "disk": 0.08, "between zones": 0.02}


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> int:
    """Return the bytes of memory that a process has to itself."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    (found,) = (int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
    return found * 1024


def disk_of(broker: Broker, topic: str) -> int:
    """Return the bytes of a topic's records on the disk of a broker."""
    return sum(file.stat().st_size for file in (broker.folder / "data").glob(f"{topic}-*/*.log"))


class Drain:
    """Workers of a group that find all events waiting for them at once."""

    def __init__(self, fleet: Fleet, broker: Broker, rows: list[Row], workers: int) -> None:
        self._fleet, self._broker, self._rows, self._workers = fleet, broker, rows, workers

    def measure(self) -> dict[str, float]:
        """Return events a second, and CPU of workers and of the broker for an event."""
        fleet, cluster = self._fleet, self._fleet.cluster
        cluster.fill(fleet.events, [Row(b"{}", b"k", partition=number) for number in range(PARTITIONS)])
        names = [fleet.start(worker__session_timeout="300", worker__poll_records="10000") for _ in range(self._workers)]
        fleet.wait_until(lambda: all("states are here" in fleet.log_of(name) for name in names))
        fleet.wait_for_all()
        pids = [fleet.workers[name].pid for name in names]
        for pid in pids:  # frozen, and still members: no start and no join is measured
            os.kill(pid, signal.SIGSTOP)
        cluster.fill(fleet.events, self._rows)
        memory = sum(map(memory_of, pids))
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        samples = list(self._watch(pids))
        memory = sum(map(memory_of, pids)) - memory
        for name in names:
            fleet.stop(name)
        events = len(self._rows)
        first = next(sample for sample in samples if sample["left"] <= WINDOW[0] * events)
        last = next(sample for sample in samples if sample["left"] <= WINDOW[1] * events)
        done = first["left"] - last["left"]
        return {
            "events_per_s": done / (last["time"] - first["time"]),
            "worker_us": (last["workers"] - first["workers"]) / done * 1e6,
            "broker_us": (last["broker"] - first["broker"]) / done * 1e6,
            "alerts": len(cluster.read(fleet.alerts)) / events,
            "event_bytes": disk_of(self._broker, fleet.events) / events,
            "row_bytes": disk_of(self._broker, f"{fleet.group}-sessions-changelog") / events,
            "session_bytes": memory / SESSIONS,
        }

    def _watch(self, pids: Sequence[int]) -> Iterator[dict[str, float]]:
        """Yield how much is left, when, and the CPU that was used, until nothing is left."""
        fleet = self._fleet
        left = 1
        while left:
            left = fleet.cluster.uncommitted(fleet.group, [fleet.events])
            used = {"workers": sum(map(cpu_of, pids)), "broker": cpu_of(self._broker.pid)}
            yield {"left": left, "time": time.perf_counter(), **used}
            time.sleep(0.5)


def check() -> dict[str, Any]:
    """Measure 1, 2 and 4 workers, and let the model say what it would have expected of the constants of one."""
    lines = event_lines(SESSIONS)
    rows = [Row(line, json.loads(line)["session_id"].encode()) for line in lines]
    found: dict[int, dict[str, float]] = {}
    waiting: Counter[int] = Counter()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        broker = opened.enter_context(Broker(folder / "broker"))
        file = folder / "policy.yaml"
        file.write_text(to_yaml(policy(RULES, build_registry())))
        for workers in WORKERS:
            fleet = Fleet(Cluster(broker.address(), f"sizing{workers}"), folder, file, partitions=PARTITIONS)
            opened.callback(fleet.close)
            found[workers] = Drain(fleet, broker, rows, workers).measure()
            if workers == 1:
                waiting = Counter(record.partition for record in fleet.cluster.read(fleet.events))
    one = found[1]
    one["wait_us"] = max(0.0, 1e6 / one["events_per_s"] - one["worker_us"])
    costs = Costs(**{name: one[name] for name in Costs.__dataclass_fields__})
    cores = len(os.sched_getaffinity(0))
    counted = [waiting[number] for number in range(PARTITIONS)]
    for workers, figures in found.items():
        figures["model_events_per_s"] = drain(costs, counted, workers, cores)
        figures["model_to_measured"] = figures["model_events_per_s"] / figures["events_per_s"]
    return {"cores": cores, "events": len(rows), "workers": found, "costs": asdict(costs)}


def size(costs: Costs, rate: float, *, load: float, seed: int) -> dict[str, float]:
    """Return what a rate takes where workers' cores are to be used to a share."""
    workers = max(2, round(rate * costs.worker_us * 1e-6 / load))
    partitions = 4 * workers
    kept: Behind = keep_up(
        costs, rate=rate, partitions=partitions, workers=workers, sessions=int(rate * 10), death=15.0, seed=seed
    )
    bytes_in = rate * (costs.event_bytes + costs.row_bytes)
    broker_cores = 3 * rate * costs.broker_us * 1e-6 / load  # each event is kept three times
    disk = bytes_in * 3 * 86_400 / 1e9
    hourly = workers * PRICES["worker core"] + broker_cores * PRICES["broker core"]
    hourly += disk * PRICES["disk"] / 730
    hourly += bytes_in * 2.67 * 3600 / 1e9 * PRICES["between zones"]  # two copies, and two readers of three elsewhere
    return {
        "workers": workers,
        "partitions": partitions,
        "memory of a worker, GB": rate * 10 / workers * costs.session_bytes / 1e9,
        "broker cores": broker_cores,
        "into brokers, MB/s": bytes_in / 1e6,
        "out of brokers, MB/s": bytes_in * 2 / 1e6,
        "between brokers, MB/s": bytes_in * 2 / 1e6,
        "disk for a day, three copies, TB": disk / 1e3,
        "alerts a second": rate * costs.alerts,
        "busiest worker's load": kept.max_load,
        "lag before a death, s": kept.usual_lag,
        "lag after a death, at most, s": kept.takeover_lag,
        "lag as before again after, s": kept.recovery,
        "one session at most, events a second": 1e6 / costs.worker_us,
        "dollars an hour": hourly,
    }


def main() -> None:
    """Measure, or size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rate", type=float, default=1_000_000)
    parser.add_argument("--load", type=float, default=0.6, help="share of the workers' and brokers' cores")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.check:
        results = check()
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(results, indent=1))
        return
    costs = Costs(**json.loads(RESULTS.read_text())["costs"]) if RESULTS.exists() else MEASURED
    for name, worker_us in (("clone", costs.worker_us), ("wheel", costs.worker_us * WHEEL)):
        print(name)
        sized = size(Costs(**asdict(costs) | {"worker_us": worker_us}), given.rate, load=given.load, seed=given.seed)
        for what, figure in sized.items():
            print(f"  {what:40} {figure:14,.1f}")


if __name__ == "__main__":
    main()
