"""Events per second on a real broker: the worker, the embedded runner, and clients that do nothing, in one run.

``python -m tests.bench.kafka`` starts a broker, unless STREAM_GUARD_TEST_KAFKA names one; prints a table and writes
JSON to .cache/bench-kafka.json. Every way of reading runs in a process of its own, over the same topic, in turns; the
best of its turns counts. The clients that do nothing are those of the worker and of the runner, with the same settings
and the same polls: whole batches, of which only the records are counted. After `make compiled`, the worker and the
runner are measured in that build as well.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

from tests.bench.builds import SAFE_PATH, SITE, environment_of, is_compiled
from tests.bench.workload import event_lines, policy
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row

SESSIONS = 12_000  # about 180,000 events: a third of them would measure the start of a worker
AGENT_EVENTS = 40_000  # of the plain agent, which is slow and has a constant rate
ROUNDS = 3
PARTITIONS = 6
RULES = 50
RESULTS = Path(".cache") / "bench-kafka.json"


class Stopwatch:
    """Measures from the first record to the last, without the start and the join of the group."""

    def __init__(self, records: int) -> None:
        self._left = records
        self._total = records
        self._began: tuple[float, float] | None = None

    def count(self, records: int) -> bool:
        """Count records; True when all have come."""
        if self._began is None:
            self._began, self._total = (time.perf_counter(), time.process_time()), self._total - records
        self._left -= records
        return self._left <= 0

    def result(self) -> dict[str, float]:
        """Return the rate since the first batch, and the CPU time for one record."""
        wall, cpu = self._began or (time.perf_counter(), time.process_time())
        seconds, used = time.perf_counter() - wall, time.process_time() - cpu
        counted = max(1, self._total)
        return {"events_per_s": round(counted / seconds), "cpu_us_per_event": round(used / counted * 1e6, 1)}


async def consume(address: str, topics: list[str], watch: Stopwatch) -> None:
    """Read everything with the worker's client and do nothing."""
    import aiokafka

    from stream_guard.settings import load_settings

    consumer = aiokafka.AIOKafkaConsumer(
        topics[0],
        bootstrap_servers=address,
        group_id=None,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_poll_records=load_settings().worker.poll_records,
    )
    await consumer.start()
    try:
        done = False
        while not done:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                done = watch.count(len(records))
    finally:
        await consumer.stop()


async def poll(address: str, topics: list[str], watch: Stopwatch) -> None:
    """Read everything with the embedded runner's client and do nothing."""
    from kafka import TopicPartition

    from stream_guard.kafka.client import open_consumer
    from stream_guard.settings import load_settings
    from stream_guard.sources.kafka import MAX_RECORDS, POLL_MS

    connection = open_consumer([address], load_settings().kafka)
    consumer: Any = connection.client
    partitions = [TopicPartition(topics[0], number) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    done = False
    while not done:
        for records in consumer.poll(timeout_ms=POLL_MS, max_records=MAX_RECORDS).values():
            done = watch.count(len(records))
    connection.close(autocommit=False)


async def work(address: str, topics: list[str], watch: Stopwatch) -> None:
    """Process everything with one worker, in a process as the command makes it."""
    from stream_guard.cli.process import YOUNG_OBJECTS, pass_over_loaded
    from stream_guard.decoding.topic_dead_letters import KafkaDeadLetters
    from stream_guard.judge.counts import Counts
    from stream_guard.judge.judge import Judge
    from stream_guard.kafka.address import parse_address
    from stream_guard.kafka.writer import TopicWriter
    from stream_guard.registry import build_registry
    from stream_guard.running.assembly import Assembly
    from stream_guard.settings import load_settings
    from stream_guard.worker.assembly import Health, WorkerParts
    from stream_guard.worker.kafka.process import run_worker

    gc.set_threshold(YOUNG_OBJECTS)
    events, alerts, letters = topics
    settings, registry, counts = load_settings(worker={"group": f"bench-{alerts}"}), build_registry(), Counts()
    assembly = Assembly(settings, registry)

    def observe(_seconds: float, records: int) -> None:
        if watch.count(records):
            os.kill(os.getpid(), 15)

    target = f"kafka:{address}/{alerts}"
    parts = WorkerParts(
        judge=Judge(policy(RULES, registry), mode="stream", counts=counts),
        decoder=assembly.make_decoder("native"),
        delivery=assembly.open_delivery([target], counts),
        dead_letters=KafkaDeadLetters(TopicWriter.open(f"{address}/{letters}"), counts, format_name="native"),
        settings=settings,
        health=Health(counts, patience=600.0),
        observe=observe,
    )
    pass_over_loaded()
    await run_worker(parse_address(f"kafka://{address}/{events}"), parts)


async def embed(address: str, topics: list[str], watch: Stopwatch) -> None:
    """Process everything with the embedded runner, with a checkpoint, in a process as the command makes it."""
    from stream_guard.cli.process import YOUNG_OBJECTS, pass_over_loaded
    from stream_guard.registry import build_registry
    from stream_guard.running.assembly import Assembly
    from stream_guard.running.embedded import RunOptions, open_run
    from stream_guard.settings import load_settings

    gc.set_threshold(YOUNG_OBJECTS)
    events, alerts, letters = topics
    registry = build_registry()
    with tempfile.TemporaryDirectory() as folder:
        options = RunOptions(
            source=f"kafka://{address}/{events}",
            policy=policy(RULES, registry),
            alerts=(f"kafka:{address}/{alerts}",),
            checkpoint=Path(folder) / "checkpoint",
            dead_letters=f"kafka://{address}/{letters}",
            serve=False,
        )
        with Assembly(load_settings(), registry) as assembly:
            opened = open_run(options, assembly, threading.Event())
            watch.count(0)
            pass_over_loaded()
            opened.runner.run()
            watch.count(opened.counts.records)


async def idle_agent(address: str, topics: list[str], watch: Stopwatch) -> None:
    """Read everything with a plain Faust agent that does nothing."""
    import faust

    with tempfile.TemporaryDirectory() as folder:
        app = faust.App(f"idle-{topics[0]}", broker=f"kafka://{address}", web_enabled=False, datadir=folder)
        done = asyncio.Event()

        @app.agent(app.topic(topics[0], value_type=bytes, key_type=bytes))
        async def nothing(stream: Any) -> None:
            async for _ in stream:
                if watch.count(1):
                    done.set()

        starting = asyncio.ensure_future(app.start())
        await done.wait()
        print(json.dumps(watch.result()), flush=True)
        starting.cancel()
        os._exit(0)  # a plain app takes long to leave the group


AIOKAFKA, KAFKA_PYTHON = "aiokafka, doing nothing", "kafka-python, doing nothing"
AGENT = "a plain Faust agent, doing nothing"
WORKER, RUNNER = f"the worker, {RULES} rules", f"the embedded runner, {RULES} rules"
COMPILED = ", compiled"
WAYS: dict[str, Callable[[str, list[str], Stopwatch], Any]] = {
    AIOKAFKA: consume,
    WORKER: work,
    KAFKA_PYTHON: poll,
    RUNNER: embed,
    AGENT: idle_agent,
}


def measure(address: str, way: str, topics: list[str], records: int) -> None:
    """Run one way in this process and print its result."""
    import uvloop

    watch = Stopwatch(records)
    plain_name = way.removesuffix(COMPILED)
    if is_compiled() is (plain_name == way):
        raise AssertionError(f"{way}: the benchmark measures another build; `make compiled`")
    uvloop.run(WAYS[plain_name](address, topics, watch))
    print(json.dumps(watch.result()), flush=True)


def compare(address: str) -> dict[str, Any]:
    """Run all ways over one topic, one after the other, and again."""
    cluster = Cluster(address, "bench")
    events = cluster.create(PARTITIONS)
    lines = event_lines(SESSIONS)
    cluster.fill(events, [Row(line, json.loads(line)["session_id"].encode()) for line in lines])
    results: dict[str, Any] = {"events": len(lines), "bytes": sum(map(len, lines)) // len(lines), "ways": {}}
    ways = [*WAYS, *(way + COMPILED for way in (WORKER, RUNNER) if SITE.exists())]
    rounds: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, found in rounds.items():
            found.append(run_one(cluster, way, events, AGENT_EVENTS if way == AGENT else len(lines)))
    results["ways"] = {way: max(found, key=itemgetter("events_per_s")) for way, found in rounds.items()}
    results["rounds"] = rounds
    cluster.delete()
    return results


def run_one(cluster: Cluster, way: str, events: str, records: int) -> dict[str, float]:
    """Measure one way in a process of its own, with topics of its own to write to."""
    topics = json.dumps([events, cluster.create(1), cluster.create(1)])
    command = [sys.executable, *SAFE_PATH, "-m", "tests.bench.kafka", cluster.address, way, topics, str(records)]
    environment = environment_of(compiled=way.endswith(COMPILED))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{way}: {done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def show(results: dict[str, Any]) -> None:
    """Print the rates, and how they stand to the same client doing nothing and to the plain agent."""
    rates = {way: result["events_per_s"] for way, result in results["ways"].items()}
    clients = {WORKER: AIOKAFKA, RUNNER: KAFKA_PYTHON, AGENT: AIOKAFKA}
    print(f"{results['events']} events of {results['bytes']} bytes, {PARTITIONS} partitions, one process each")
    print(f"best of {ROUNDS}; CPU time of the process, in microseconds an event")
    print(f"{'':42}{'events/s':>10}{'CPU us':>9}{'of its client':>15}{'x agent':>9}")
    for way, rate in rates.items():
        cpu, client = results["ways"][way]["cpu_us_per_event"], rates[clients.get(way.removesuffix(COMPILED), way)]
        print(f"{way:42}{rate:>10,}{cpu:>9}{rate / client:>14.0%}{rate / rates[AGENT]:>10.1f}")


def main() -> None:
    """Compare, show and write down."""
    if given := os.environ.get("STREAM_GUARD_TEST_KAFKA"):
        results = compare(given)
    else:
        with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
            results = compare(broker.address())
    show(results)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
