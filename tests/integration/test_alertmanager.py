"""A real Alertmanager: it merges repeats, groups sessions, keeps silences, and loses nothing while it is away."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from pydantic import SecretStr
from ruamel.yaml import YAML

import stream_guard as sg
from stream_guard.alerting.delivery import Delivery
from stream_guard.history import incidents
from stream_guard.running.assembly import Assembly
from stream_guard.settings import DeliverySettings, RouteSettings, Settings
from stream_guard.testing import alert
from tests import processes
from tests.http_end import HttpEnd
from tests.parts import require

CONFIG = """
route: {receiver: end, group_by: [alertname], group_wait: 100ms, group_interval: 200ms, repeat_interval: 4h}
receivers: [{name: end, webhook_configs: [{url: "%s", send_resolved: true}]}]
"""


class RealAlertmanager:
    """Debian's package, on loopback, with a folder of its own; it can be stopped and started again."""

    def __init__(self, program: str, folder: Path, config: str) -> None:
        self._program, self._folder = program, folder
        self._config = folder / "alertmanager.yml"
        self._config.write_text(config)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [self._program, f"--config.file={self._config}", f"--storage.path={self._folder}/data"]
        command += [f"--web.listen-address=127.0.0.1:{self._port}", "--cluster.listen-address=", "--log.level=error"]
        self._process = subprocess.Popen(command, cwd=self._folder)
        eventually(self._is_ready)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready").is_success
        except httpx.HTTPError:
            return False

    def alerts(self, **filters: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx.get(f"{self.url}/api/v2/alerts", params=filters).json()
        return found

    def groups(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx.get(f"{self.url}/api/v2/alerts/groups").json()
        return found

    def silence(self, session: str) -> None:
        now = datetime.now(UTC)
        matcher = {"name": "session", "value": session, "isRegex": False, "isEqual": True}
        wanted = {"matchers": [matcher], "startsAt": now.isoformat(), "createdBy": "ada", "comment": "known"}
        wanted["endsAt"] = (now + timedelta(hours=1)).isoformat()
        httpx.post(f"{self.url}/api/v2/silences", json=wanted).raise_for_status()


def eventually(holds: Callable[[], object], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.05)


@pytest.fixture
def end() -> Iterator[HttpEnd]:
    with HttpEnd() as made:
        yield made


@contextmanager
def running(folder: Path, config: str) -> Iterator[RealAlertmanager]:
    program = shutil.which("prometheus-alertmanager")
    require(program, "Alertmanager is missing (Debian: apt-get install prometheus-alertmanager)")
    made = RealAlertmanager(str(program), folder, config)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def manager(tmp_path: Path, end: HttpEnd) -> Iterator[RealAlertmanager]:
    with running(tmp_path, CONFIG % end.url) as made:
        yield made


@pytest.fixture
def assembly(tmp_path: Path, manager: RealAlertmanager) -> Iterator[Assembly]:
    route = RouteSettings(to=SecretStr(f"alertmanager:{manager.url}"), flood=0, resend=0.2)
    delivery = DeliverySettings(
        outbox=tmp_path / "outbox.db", routes={"pager": route}, page_url="https://guard.example"
    )
    with Assembly(Settings(delivery=delivery)) as made:
        yield made


def found(number: int, session: str, **fields: Any) -> sg.Alert:
    return msgspec.structs.replace(alert(number), session_id=session, rule_id="refund", time=time.time(), **fields)


def open_delivery(assembly: Assembly, *targets: str) -> Delivery:
    return assembly.open_delivery(targets, sg.Counts(), routes=True)


def test_repeats_merge_sessions_group_and_a_silence_holds(
    manager: RealAlertmanager, assembly: Assembly, end: HttpEnd
) -> None:
    manager.silence("quiet")
    delivery = open_delivery(assembly)
    delivery.deliver([found(1, "s1"), found(2, "s1"), found(3, "s2"), found(4, "quiet")])
    eventually(lambda: len(manager.alerts()) == 3)
    by_session = {one["labels"]["session"]: one for one in manager.alerts()}
    assert set(by_session) == {"s1", "s2", "quiet"}
    assert by_session["s1"]["generatorURL"].startswith("https://guard.example/alerts/")
    [group] = [group for group in manager.groups() if group["labels"] == {"alertname": "refund"}]
    assert len(group["alerts"]) == 3
    assert by_session["quiet"]["status"]["state"] == "suppressed"
    eventually(lambda: {"s1", "s2"} <= notified(end))
    assert "quiet" not in notified(end)


def test_a_solved_incident_resolves_its_alert(
    manager: RealAlertmanager, assembly: Assembly, end: HttpEnd, tmp_path: Path
) -> None:
    from stream_guard.history.database import SqliteDatabase

    delivery = open_delivery(assembly, f"history:{tmp_path / 'history.db'}")
    delivery.deliver([found(1, "s1"), found(2, "s2")])
    eventually(lambda: {"s1", "s2"} <= notified(end))
    database = SqliteDatabase(tmp_path / "history.db")
    incidents.solve(database, incidents.incident_id("s1", "refund"), by="ada", note="", time=time.time())
    database.close()
    eventually(lambda: "s1" in notified(end, "resolved"))
    assert "s2" not in notified(end, "resolved")
    assert [one["labels"]["session"] for one in manager.alerts(active="true")] == ["s2"]


def test_while_it_is_away_alerts_wait_and_afterwards_all_of_them_arrive(
    manager: RealAlertmanager, assembly: Assembly
) -> None:
    delivery = open_delivery(assembly)
    delivery.deliver([found(1, "before")])
    eventually(lambda: len(manager.alerts()) == 1)
    manager.stop()
    began = time.monotonic()
    for number in range(300):
        delivery.deliver([found(10 + number, f"away-{number}")])
    assert time.monotonic() - began < 20  # the stream does not wait for it
    manager.start()
    wanted = {f"away-{number}" for number in range(300)} | {"before"}  # what it forgot, too
    eventually(lambda: {one["labels"]["session"] for one in manager.alerts()} == wanted, seconds=90)


def test_what_a_run_finds_reaches_whoever_is_on_call_in_the_compose_file(tmp_path: Path, root: Path) -> None:
    folder = root / "deploy" / "alertmanager"
    command = [sys.executable, str(folder / "on_call.py"), "127.0.0.1:0"]
    on_call = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert on_call.stdout is not None
        url = on_call.stdout.readline().split()[-1]
        config = (folder / "alertmanager.yml").read_text().replace("http://on-call:8080", url)
        config = re.sub(r"(group_wait): \d+s", r"\1: 100ms", config)  # nobody here waits for others to join
        with running(tmp_path, config) as manager:
            (tmp_path / "policy.yaml").write_text(
                "rules: [{id: no-wipe, kind: no_call, params: {tool: wipe}, severity: critical}]"
            )
            call = {"kind": "tool_call", "session_id": "s\n1", "event_id": "e", "tool": "wipe", "time": time.time()}
            compose = YAML(typ="safe", pure=True).load(root / "docker-compose.yml")["x-alert-settings"]
            done = processes.run(
                *("run", "-", "--policy", "policy.yaml", "--no-serve"),
                stdin=json.dumps(call).encode(),
                cwd=tmp_path,
                env={name: value.replace("http://alertmanager:9093", manager.url) for name, value in compose.items()},
            )
            assert done.returncode == 0, done.stderr.decode()
            said = on_call.stdout.readline()
        assert said == "firing critical no-wipe s\\n1: wipe was called\n"
    finally:
        on_call.kill()
        on_call.communicate()


def notified(end: HttpEnd, status: str = "firing") -> set[str]:
    told = [one for request in list(end.requests) for one in json.loads(request.body)["alerts"]]
    return {one["labels"]["session"] for one in told if one["status"] == status}
