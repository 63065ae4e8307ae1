"""A real Alertmanager: it merges repeats, groups sessions, keeps silences, and loses nothing while it is away."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from tests.monitoring import RealAlertmanager, deployed_config, eventually, on_call, running_alertmanager

CONFIG = """
route: {receiver: end, group_by: [alertname], group_wait: 100ms, group_interval: 200ms, repeat_interval: 4h}
receivers: [{name: end, webhook_configs: [{url: "%s", send_resolved: true}]}]
"""


@pytest.fixture
def end() -> Iterator[HttpEnd]:
    with HttpEnd() as made:
        yield made


@pytest.fixture
def manager(tmp_path: Path, end: HttpEnd) -> Iterator[RealAlertmanager]:
    with running_alertmanager(tmp_path, CONFIG % end.url) as made:
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
    for number in range(300):  # each is taken in at once, although nobody is there to have it
        delivery.deliver([found(10 + number, f"away-{number}")])
    manager.start()
    wanted = {f"away-{number}" for number in range(300)} | {"before"}  # what it forgot, too
    eventually(lambda: {one["labels"]["session"] for one in manager.alerts()} == wanted, seconds=90)


def test_what_a_run_finds_reaches_whoever_is_on_call_in_the_compose_file(tmp_path: Path, root: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "rules: [{id: no-wipe, kind: no_call, params: {tool: wipe}, severity: critical}]"
    )
    call = {"kind": "tool_call", "session_id": "s\n1", "event_id": "e", "tool": "wipe", "time": time.time()}
    compose = YAML(typ="safe", pure=True).load(root / "docker-compose.yml")["x-alert-settings"]
    with on_call() as (url, told), running_alertmanager(tmp_path, deployed_config(url)) as manager:
        done = processes.run(
            *("run", "-", "--policy", "policy.yaml", "--no-serve"),
            stdin=json.dumps(call).encode(),
            cwd=tmp_path,
            env={name: value.replace("http://alertmanager:9093", manager.url) for name, value in compose.items()},
        )
        assert done.returncode == 0, done.stderr.decode()
        assert next(told) == "firing critical no-wipe s\\n1: wipe was called\n"


def notified(end: HttpEnd, status: str = "firing") -> set[str]:
    told = [one for request in list(end.requests) for one in json.loads(request.body)["alerts"]]
    return {one["labels"]["session"] for one in told if one["status"] == status}
