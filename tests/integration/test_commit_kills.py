"""Killed between any two steps of a commit, in every mode, and started again: every alert is out, under one id."""

from __future__ import annotations

import json
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import httpx
import pytest

from stream_guard.cli.demo import write_samples
from stream_guard.history.database import open_database
from tests import plain_http, processes
from tests.formats.telemetry import otlp_current
from tests.integration.dying import DEATH, OF_GATES, STEPS
from tests.integration.test_telemetry_receiver import post
from tests.kafka.cluster import Cluster, Row
from tests.parts import import_part
from tests.ports import free_port
from tests.worker.fleet import Fleet

POLICY = """
rules:
  - {id: no-secrets, kind: forbidden_text, params: {text: SECRET, where: tool_result}, severity: critical}
  - {id: no-wires, kind: no_call, params: {tool: wire}, then: block, severity: critical}
  - {id: no-refunds, kind: no_call, params: {tool: issue_refund}}
"""
TOLD = {"kind": "tool_result", "session_id": "s", "event_id": "r", "call_id": "c", "tool": "read", "output": "SECRET"}
ASKED = {"session_id": "s", "event_id": "q", "call_id": "q", "tool": "wire", "args": {"to": "x"}}


class Mode(ABC):
    """A way to run, in a folder of its own: started, and given its input, as often as it takes."""

    kills: ClassVar[tuple[int, ...]] = (1, 2)  # of each start that dies: in which commit
    repeats: ClassVar[bool] = True  # whether an alert may be told again, under its id

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    @abstractmethod
    def run(self, env: dict[str, str] | None) -> int:
        """Start it, with an environment in which it dies, or without; return the exit code."""

    def told(self) -> list[dict[str, Any]]:
        """Return the alerts that are out."""
        file = self.folder / "alerts.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def start(self, env: dict[str, str] | None, *command: object) -> subprocess.Popen[Any]:
        """Start a command in which it may die."""
        launcher = processes.COMMAND if env is None else ("-m", "tests.integration.dying")
        with (self.folder / "log").open("w") as log:
            extra: dict[str, Any] = {"stdout": log, "stderr": log, "cwd": self.folder, "launcher": launcher}
            return processes.start(*command, **extra, env={"STREAM_GUARD_API__BUDGET": "60", **(env or {})})


class Reading(Mode):
    """A command that reads a file to its end."""

    repeats = False
    command: ClassVar[tuple[str, ...]]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._events, self._policy = write_samples(folder, 30)
        with self._events.open("a") as file:
            file.write("no event\n")

    def run(self, env: dict[str, str] | None) -> int:
        options = ["--policy", self._policy, "--checkpoint", "checkpoint"]
        verb, *rest = self.command
        return self.start(env, verb, self._events, *options, *rest).wait()


class Embedded(Reading):
    """``run`` with a checkpoint; its first commit is empty."""

    kills = (2, 3)
    command = ("run", "--no-serve", "--alerts", "jsonl:alerts.jsonl", "--dead-letters", "dead.jsonl")


class Replaying(Reading):
    """``replay`` with a checkpoint and a sink."""

    command = ("replay", "--emit", "jsonl:alerts.jsonl", "--allow-inconclusive")


class Serving(Mode):
    """``serve`` with its sessions in a file."""

    state = "state.db"
    telemetry: tuple[str, ...] = ()

    def run(self, env: dict[str, str] | None) -> int:
        (self.folder / "policy.yaml").write_text(POLICY)
        port = free_port()
        command = ["serve", "--policy", "policy.yaml", "--port", port, "--history", "history.db"]
        command += ["--alerts", "jsonl:alerts.jsonl", "--checkpoint", self.state, *self.telemetry]
        process = self.start(env, *command)
        self._wait_for(process, f"http://127.0.0.1:{port}")
        # Where it dies of the first alert, no second one may be kept meanwhile: the next start would tell both at once.
        asks = env is None or not env["DIE_AT"].endswith(" 1")
        self.feed(f"http://127.0.0.1:{port}", asks=asks)
        if env is None:
            self.wait_until_told()
            process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            Event().wait(0.1)
            if env is not None:  # on a busy machine a client gives up before it has an answer
                self.feed(f"http://127.0.0.1:{port}", asks=asks)
        return process.wait()

    def _wait_for(self, process: subprocess.Popen[Any], url: str) -> None:
        while process.poll() is None:
            with suppress(httpx.HTTPError):
                plain_http.get(f"{url}/healthz", timeout=30)
                return
            Event().wait(0.02)

    def feed(self, url: str, *, asks: bool) -> None:
        """Tell what happened and ask, as a client does that tries again what got no answer."""
        with suppress(httpx.HTTPError):
            plain_http.post(f"{url}/v1/events", json={"events": [TOLD]}, timeout=60)
            if asks:
                plain_http.post(f"{url}/v1/check", json=ASKED, timeout=60)

    def wait_until_told(self) -> None:
        """Return when all that is judged is told; a server that is stopped tells it."""

    def recorded(self) -> tuple[list[str], int]:
        """Return the ids of the alerts in the history, and the number of incidents' findings."""
        with closing(open_database(str(self.folder / "history.db"))) as history:
            alerts = [str(name) for (name,) in history.read("SELECT id FROM sg_alerts ORDER BY id")]
            [(entries,)] = history.read("SELECT count(*) FROM sg_timeline")
        return alerts, int(entries)


class Telemetry(Serving):
    """``serve --telemetry``: what it acknowledged, nobody sends again."""

    kills = (1,)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port, self._is_sent = free_port(), False
        self.telemetry = ("--telemetry", f"otlp://127.0.0.1:{self._port}?spool={folder / 'spool'}")

    def feed(self, url: str, *, asks: bool) -> None:
        del url, asks
        with suppress(ConnectionError):  # it died of the export, so that it has it
            if self._is_sent:
                return
            self._is_sent = True
            post(f"127.0.0.1:{self._port}", otlp_current()[0], "application/json")

    def wait_until_told(self) -> None:
        while not self.told():
            Event().wait(0.05)


class Working(Mode):
    """A worker on a broker."""

    kills = (1,)

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder)
        events, policy = write_samples(folder, 10)
        self.fleet = Fleet(cluster, folder, policy)
        lines = [*events.read_bytes().splitlines(), b'{"session_id": "s"}']
        self._rows = [Row(line, json.loads(line)["session_id"].encode()) for line in lines]
        self.fleet.cluster.fill(self.fleet.events, self._rows)

    def run(self, env: dict[str, str] | None) -> int:
        fleet = self.fleet
        if env is not None:
            return fleet.end_of(fleet.start(process={"launcher": ("-m", "tests.integration.dying"), "env": env}))
        name = fleet.start()
        fleet.wait_for(len(self._rows))
        fleet.stop(name)
        return 0

    def told(self) -> list[dict[str, Any]]:
        return [{**alert["data"], "alert_id": alert["id"]} for alert in self.fleet.sent()]


@contextmanager
def mode(name: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Mode]:
    """Open a mode; whatever it needs of the world comes from a fixture."""
    if name == "worker":
        working = Working(folder, request.getfixturevalue("cluster"))
        yield working
        working.fleet.close()
        return
    kinds: dict[str, type[Mode]] = {"run": Embedded, "replay": Replaying, "telemetry": Telemetry}
    opened = kinds.get(name, Serving)(folder)
    if isinstance(opened, Serving) and name == "gate-postgres":
        opened.state = _own_database(request.getfixturevalue("postgres").address, folder.name)
    yield opened


def _own_database(address: str, name: str) -> str:
    with import_part("psycopg").connect(address, autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name}")
        server.execute(f"CREATE DATABASE {name}")
    return address.removesuffix("postgres") + name


def _places() -> Iterator[Any]:
    for name in ("run", "replay", "gate", "gate-postgres", "telemetry", "worker"):
        marks = [pytest.mark.long] if name in ("worker", "gate-postgres") else []
        marks += [pytest.mark.kafka] if name == "worker" else []
        is_gate = name in ("gate", "gate-postgres", "telemetry")
        for place in (*STEPS, *(OF_GATES if is_gate else ())):
            yield pytest.param(name, place, id=f"{name}-{place}", marks=marks)


def _ids(alerts: list[dict[str, Any]]) -> list[str]:
    return [alert["alert_id"] for alert in alerts]


@pytest.mark.parametrize(("name", "place"), list(_places()))
def test_killed_at_any_step_every_alert_is_out_under_one_id(
    tmp_path: Path, name: str, place: str, request: pytest.FixtureRequest
) -> None:
    with mode(name, tmp_path / "whole", request) as whole:
        assert whole.run(None) == 0
        wanted = sorted(set(_ids(whole.told())))
        recorded = whole.recorded() if isinstance(whole, Serving) else None
    assert wanted
    with mode(name, tmp_path / "killed", request) as killed:
        for number in killed.kills:
            assert killed.run({"DIE_AT": f"{place} {number}"}) == DEATH, (tmp_path / "killed" / "log").read_text()
        assert killed.run(None) == 0
        told = _ids(killed.told())
        assert sorted(set(told)) == wanted
        assert killed.repeats or len(told) == len(wanted) or name == "worker"
        if isinstance(killed, Serving):
            assert killed.recorded() == recorded
