"""``python -m tests.bench.takeover --sessions 1000000``: how long nobody judges after a worker was killed.

Two workers of one group on a real broker; one of them owns all sessions, each with a state. It is killed with SIGKILL.
From then on, an event comes every fifth of a second for one session after the other. Each of them makes an alert, but
only for whoever knows the session's state. Measured is the time from the kill to the first alert, with no copies
(before) and with one (after), in one run over the same states; the session timeout, which passes before the brokers
notice, is a part of it. STREAM_GUARD_TEST_KAFKA names a broker; else one is started.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row
from tests.worker.fleet import Fleet

RESULTS = Path(".cache") / "bench-takeover.json"
POLICY = """
sessions: {idle: 30d}
rules:
  - {id: twice, kind: max_calls, params: {tool: refund, n: 1}}
"""
EVERY = 0.2  # seconds between two events after the kill
PIECE = 50_000  # sessions that are written at a time


def row(session: int, number: int) -> Row:
    """One refund of a session. The second one is one too many."""
    name = f"session-{session:08d}"
    event = {"kind": "tool_call", "event_id": f"e{number}", "session_id": name, "time": 1_767_600_000.0 + number}
    return Row(json.dumps(event | {"tool": "refund", "args": {"order": session}}).encode(), name.encode())


class Takeover:
    """Sessions with states, and the measurements over them."""

    def __init__(self, fleet: Fleet, sessions: int, timeout: float) -> None:
        self.fleet = fleet
        self._sessions = sessions
        self._timeout = timeout
        self._next = 0  # the next session to get its second refund

    def build(self) -> float:
        """Give all sessions their first refund; return the seconds that it took to judge them."""
        began = time.monotonic()
        for start in range(0, self._sessions, PIECE):
            stop = min(start + PIECE, self._sessions)
            self.fleet.cluster.fill(self.fleet.events, (row(number, 0) for number in range(start, stop)))
        name = self._start(copies=0)
        self.fleet.wait_for_all()
        took = time.monotonic() - began
        self.fleet.stop(name)
        return took

    def _start(self, copies: int) -> str:
        settings = {
            "worker__session_timeout": str(self._timeout),
            "worker__poll_records": "10000",
            "worker__copies": str(copies),
            "serve__port": "0",
        }
        return self.fleet.start(options=(), **settings)

    def measure(self, copies: int) -> dict[str, Any]:
        """Return the seconds from a kill to the first alert, and what the successor says of its states."""
        first = self._start(copies)
        self._wait_for_alert(time.monotonic())
        second = self._start(copies)
        self._wait_for_copies(second if copies else first, copies)
        time.sleep(2.0)  # the second one is a member by then, and idle
        self.fleet.kill(first)
        took = self._wait_for_alert(time.monotonic())
        said = re.findall(r"states are here: .*", self.fleet.log_of(second))
        self.fleet.stop(second)
        return {"takeover_s": round(took, 1), "said": said[-1]}

    def _wait_for_copies(self, name: str, copies: int) -> None:
        """Wait until the second worker is a member and has its copies."""
        wanted = f'stream_guard_copies{{state="complete"}} {float(copies * self.fleet.partitions)}'
        url = self.fleet.url(name)

        def has() -> bool:
            with urlopen(f"{url}/metrics", timeout=30) as answer:
                return wanted in answer.read().decode()

        self.fleet.wait_until(has, within=900.0)

    def _wait_for_alert(self, since: float) -> float:
        """Send events until one makes an alert; return the seconds until it is there."""
        with self._alerts() as consumer, self._producer() as producer:
            while time.monotonic() - since < 900.0:
                probe = row(self._next, 1)
                self._next += 1
                producer.send(self.fleet.events, key=probe.key, value=probe.value).get(60)
                if consumer.poll(timeout_ms=int(EVERY * 1000)):
                    return time.monotonic() - since
        raise RuntimeError("nobody judges")

    @contextmanager
    def _alerts(self) -> Iterator[KafkaConsumer]:
        """A reader of the alerts that come from now on."""
        consumer = KafkaConsumer(bootstrap_servers=self.fleet.cluster.address, enable_auto_commit=False)
        try:
            partitions = [TopicPartition(self.fleet.alerts, number) for number in range(2)]
            consumer.assign(partitions)
            consumer.seek_to_end(*partitions)
            for partition in partitions:
                consumer.position(partition)
            yield consumer
        finally:
            consumer.close()

    @contextmanager
    def _producer(self) -> Iterator[KafkaProducer]:
        producer = KafkaProducer(bootstrap_servers=self.fleet.cluster.address)
        try:
            yield producer
        finally:
            producer.close()


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, nargs="+", default=[50_000])
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--session-timeout", type=float, default=10.0)
    given = parser.parse_args()
    results: dict[str, Any] = {}
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        address = os.environ.get("STREAM_GUARD_TEST_KAFKA", "")
        address = address or opened.enter_context(Broker(folder / "broker")).address()
        policy = folder / "policy.yaml"
        policy.write_text(POLICY)
        for sessions in given.sessions:
            fleet = Fleet(Cluster(address, "takeover"), folder, policy, partitions=given.partitions)
            opened.callback(fleet.close)
            takeover = Takeover(fleet, sessions, given.session_timeout)
            built = takeover.build()
            figures = {name: takeover.measure(copies) for name, copies in (("before", 0), ("after", 1))}
            results[str(sessions)] = {"built_s": round(built, 1), **figures}
            print(sessions, json.dumps(results[str(sessions)]), flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(vars(given) | {"results": results}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
