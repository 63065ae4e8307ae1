"""The same 50 rules called from Quix Streams, beside the worker, on a real broker in one run.

``python -m tests.bench.quix`` starts a broker, unless STREAM_GUARD_TEST_KAFKA names one, and installs Quix Streams into
.cache/bench-quix, outside of the environment of the code. An application of Quix Streams reads the topic of the
worker's benchmark, decodes each event with our decoder, puts it through our sessions and rules, and writes the alerts
to a topic. It keeps the sessions in memory only; the worker keeps them in a changelog as well. A row without rules says
what Quix Streams takes itself. ``python -m tests.bench.quix SESSIONS`` measures fewer sessions, which is to measure the
start of a worker.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from stream_guard.alerting.delivery import alerts_of
from stream_guard.judge.judge import Judge
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from tests.bench.builds import ROOT, SAFE_PATH, SITE, environment_of
from tests.bench.kafka import COMPILED, PARTITIONS, RULES, SESSIONS, WORKER, Stopwatch, run_one
from tests.bench.workload import event_lines, policy
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row

VERSION = "3.28.1"
PACKAGES = ROOT / ".cache" / "bench-quix"
NOTHING, CALLING = "Quix Streams, doing nothing", f"Quix Streams, {RULES} rules"
ROUNDS = 2


def install() -> bool:
    """Put Quix Streams where only this benchmark finds it; False where it cannot be had."""
    if (PACKAGES / "quixstreams").is_dir():
        return True
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--target", str(PACKAGES)]
    return subprocess.run([*pip, f"quixstreams=={VERSION}"], check=False).returncode == 0


def run_application(address: str, topics: list[str], records: int, *, rules: bool) -> dict[str, float]:
    """Read everything with an application of Quix Streams, in this process."""
    sys.path.append(str(PACKAGES))  # behind our own, so that both builds have the packages they are tested with
    application: Any = import_module("quixstreams").Application  # not before it can be found

    watch = Stopwatch(records)
    with tempfile.TemporaryDirectory() as folder:
        app = application(
            address,
            consumer_group=f"bench-{topics[1]}",
            auto_offset_reset="earliest",
            state_dir=folder,
            loglevel="ERROR",
        )
        frame = app.dataframe(app.topic(topics[0], key_deserializer="bytes", value_deserializer="bytes"))

        def count(value: bytes) -> bytes:
            if watch.count(1):
                app.stop()
            return value

        frame = frame.apply(count)
        if rules:
            alerts = app.topic(topics[1], key_serializer="bytes", value_serializer="bytes")
            frame.apply(_Judge(), expand=True).to_topic(alerts)
        app.run()
    return watch.result()


class _Judge:
    """Our rules as a function from a record to alerts."""

    def __init__(self) -> None:
        registry = build_registry()
        self._decoder = registry.decoders["native"]()
        self._table = Judge(policy(RULES, registry), mode="stream")

    def __call__(self, value: bytes) -> list[bytes]:
        found: list[Any] = []
        for event in self._decoder.decode(Record(value, "events", 0)):
            found += self._table.feed(event).findings
        return [msgspec.json.encode(alert) for alert in alerts_of(found, "bench")] if found else []


def compare(address: str, sessions: int) -> dict[str, Any]:
    """Run all ways over one topic, one after the other, and again."""
    cluster = Cluster(address, "bench")
    events, lines = cluster.create(PARTITIONS), event_lines(sessions)
    cluster.fill(events, [Row(line, json.loads(line)["session_id"].encode()) for line in lines])
    builds = ("", COMPILED) if SITE.exists() else ("",)
    ways = [NOTHING, *(way + build for build in builds for way in (CALLING, WORKER))]
    rounds: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, found in rounds.items():
            run = run_one if way.startswith(WORKER) else _run_apart
            found.append(run(cluster, way, events, len(lines)))
    best = {way: max(found, key=itemgetter("events_per_s")) for way, found in rounds.items()}
    for build in builds:
        worker, caller = best[WORKER + build], best[CALLING + build]
        worker["times_quix_cpu"] = caller["cpu_us_per_event"] / worker["cpu_us_per_event"]
        worker["times_quix_rate"] = worker["events_per_s"] / caller["events_per_s"]
    return {"events": len(lines), **best}


def _run_apart(cluster: Cluster, way: str, events: str, records: int) -> dict[str, float]:
    topics = json.dumps([events, cluster.create(1)])
    command = [sys.executable, *SAFE_PATH, "-m", "tests.bench.quix", cluster.address, way, topics, str(records)]
    environment = environment_of(compiled=way.endswith(COMPILED))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1200)
    if done.returncode:
        raise RuntimeError(f"{way}: {done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main(sessions: int) -> int:
    """Compare and print."""
    if not install():
        print(f"quixstreams {VERSION} cannot be installed here", file=sys.stderr)
        return 1
    if given := os.environ.get("STREAM_GUARD_TEST_KAFKA"):
        results = compare(given, sessions)
    else:
        with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
            results = compare(broker.address(), sessions)
    for way, row in results.items():
        print(f"{way:36} {json.dumps(row)}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 2:  # be one of the ways
        address, way, topics, records = sys.argv[1:]
        print(json.dumps(run_application(address, json.loads(topics), int(records), rules=way != NOTHING)), flush=True)
    else:
        sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else SESSIONS))
