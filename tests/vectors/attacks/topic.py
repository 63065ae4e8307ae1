"""A topic of a real broker as ``run`` and ``worker`` read it: a process, restarts, and a topic made anew."""

from __future__ import annotations

import atexit
import json
import os
import signal
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.kafka import jars
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row
from tests.vectors.attacks.expectations import Outcome
from tests.vectors.attacks.processes import Process, rule_ids, write_inputs
from tests.vectors.attacks.steps import plain_event, text_of
from tests.vectors.case import CannotRunError

_GROUP: Final = "attacked"
_START: Final = 5.0  # seconds that a process has before it must have said something
_QUIET: Final = 3.0  # seconds in which nothing comes out before it has said all


@cache
def broker_address() -> str:
    """Return a broker: the one that STREAM_GUARD_TEST_KAFKA names, or one of our own until this process ends."""
    if given := os.environ.get("STREAM_GUARD_TEST_KAFKA"):
        return given
    if lacking := jars.missing_part():
        raise CannotRunError(f"needs a broker: {lacking}")
    broker = Broker(Path(tempfile.mkdtemp(prefix="broker-")) / "broker")
    broker.__enter__()
    atexit.register(broker.__exit__)
    return broker.address()


class Topic:
    """``run`` or ``worker`` over a topic of one partition."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        self._folder = folder
        self._sections = dict(case.get("settings", {}))
        self._run = self._sections.pop("run", {})
        self._patience = float(self._run.get("seconds", 30))
        self._cluster = Cluster(broker_address(), "attack")
        self._topic = self._cluster.create()
        self._out, self._letters = self._cluster.create(), self._cluster.create()
        self._waiting: list[Row] = []
        self._policy = case["policy"]
        self._outcome = Outcome(rules=rule_ids(self._policy))
        self._process: Process | None = None

    def take(self, action: str, step: dict[str, Any]) -> dict[str, Any]:
        """Carry out a step."""
        if action == "restart":
            self._read(kill=step["restart"] == "kill")
            self._policy = step.get("policy", self._policy)
            self._outcome.rules |= rule_ids(self._policy)
            return {"findings": self._outcome.findings()}
        if action == "recreate":
            self._cluster.recreate(self._topic)
            self._waiting.clear()
            return {}
        if action not in ("event", "events", "line"):
            raise CannotRunError(f"the step {action} has no place on a topic")
        for event in step["events"] if action == "events" else [step[action]]:
            value = text_of(event) if action == "line" else json.dumps(plain_event(event))
            key = event.get("session_id", "").encode() if isinstance(event, dict) else None
            self._waiting.append(Row(value.encode(step.get("encoding", "utf-8")), key=key))
        return {}

    def finish(self) -> Outcome:
        """Let the rest be read, stop, and return what the case came to."""
        self._read()
        return self._outcome

    def close(self) -> None:
        """End the process if it still runs, and delete the topics."""
        if self._process is not None:
            self._process.stop(signal.SIGKILL)
        self._cluster.delete()

    def _read(self, *, kill: bool = False) -> None:
        self._cluster.fill(self._topic, self._waiting)
        self._waiting.clear()
        self._process = process = Process(self._folder, *self._words())
        self._wait(process)
        process.stop(signal.SIGKILL if kill else signal.SIGTERM)
        self._outcome.exit = process.exit
        self._outcome.alerts = self._found()

    def _words(self) -> list[str]:
        policy, settings = write_inputs(self._folder, self._policy, self._sections)
        words = [self._run.get("command", "run"), self._cluster.url(self._topic), "--policy", str(policy)]
        words += ["--settings", str(settings), "--from-format", self._run.get("from_format", "native")]
        words += ["--alerts", f"kafka:{self._cluster.address}/{self._out}"]
        words += ["--dead-letters", self._cluster.url(self._letters)]
        if words[0] == "worker":
            return [*words, "--group", f"{_GROUP}-{self._topic}"]
        return [*words, "--checkpoint", str(self._folder / "progress.db")]

    def _wait(self, process: Process) -> None:
        """Wait until nothing more comes out for a while, or the process has ended."""
        end = time.monotonic() + self._patience
        seen, since = len(self._cluster.read(self._out)), time.monotonic() + _START
        while process.exit is None and time.monotonic() < end:
            now = len(self._cluster.read(self._out))
            if now != seen:
                seen, since = now, time.monotonic()
            if time.monotonic() - since > _QUIET:
                return
            time.sleep(0.25)

    def _found(self) -> list[dict[str, Any]]:
        """Return the alerts in the topic, each once: it may hold one that was sent again."""
        alerts = [json.loads(record.value)["data"] for record in self._cluster.read(self._out) if record.value]
        return list({alert["alert_id"]: alert for alert in alerts}.values())
