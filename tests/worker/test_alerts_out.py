"""Alerts that leave workers over HTTP: none is lost while a receiver is away, workers die and partitions move."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.http_end import HttpEnd, Reply
from tests.worker.fleet import Fleet
from tests.worker.samples import as_row, checked, sample_rows

pytestmark = pytest.mark.kafka

SECRET = f"whsec_{base64.b64encode(bytes(32)).decode()}"


@pytest.fixture
def end() -> Iterator[HttpEnd]:
    with HttpEnd() as made:
        yield made


def start(fleet: Fleet, name: str, end: HttpEnd, **settings: str) -> str:
    """Start a worker with an outbox of its own, which stays where it is over its restarts."""
    route = {"to": f"webhook:{end.url}/hook", "secret": SECRET, "flood": "0"}
    given = {f"delivery__routes__hook__{key}": value for key, value in route.items()}
    outbox = str(fleet.folder / f"{name}.outbox")
    return fleet.start(name, delivery__outbox=outbox, delivery__drain="1", **(given | settings))


def arrived(end: HttpEnd, path: str = "/hook") -> dict[str, list[dict[str, Any]]]:
    """Return what came, by the id that a receiver knows repeats by."""
    found: dict[str, list[dict[str, Any]]] = {}
    for request in list(end.requests):
        if request.path == path:
            found.setdefault(request.headers["webhook-id"], []).append(request.json["data"])
    return found


@pytest.mark.long
def test_no_alert_is_lost_while_a_receiver_is_away_a_worker_is_killed_and_its_partitions_move(
    fleet: Fleet, policy: Path, end: HttpEnd
) -> None:
    rows = sample_rows(120)
    half = len(rows) // 2
    end.reply = Reply(503)
    fleet.cluster.fill(fleet.events, rows[:half])
    first = start(fleet, "first", end)
    fleet.wait_until(lambda: end.requests)  # something is in its outbox, and cannot leave
    fleet.kill(first)
    fleet.cluster.fill(fleet.events, rows[half:])
    second = start(fleet, "second", end)
    fleet.wait_for(len(rows))  # the second has all partitions, and has judged all there is
    end.requests.clear()
    end.reply = Reply()
    wanted = checked(rows, policy)
    fleet.wait_until(lambda: arrived(end))
    # What the first had committed waits in its outbox; killed before its first commit, it had nothing of its own.
    assert arrived(end).keys() <= wanted.keys()
    start(fleet, first, end)
    fleet.wait_until(lambda: arrived(end).keys() >= wanted.keys())
    assert arrived(end).keys() == wanted.keys()
    assert all(told == many[0] for many in arrived(end).values() for told in many)  # a repeat says the same
    fleet.stop(second)


@pytest.mark.long
def test_tenants_with_the_same_session_id_stay_apart_on_a_worker(fleet: Fleet, end: HttpEnd) -> None:
    fleet.policy.write_text(
        "rules: [{id: confirm, kind: must_call_before, params: {first: confirm, second: refund}, severity: error}]"
    )
    routes = {
        f"delivery__routes__{tenant}__{key}": value
        for tenant in ("acme", "globex")
        for key, value in {"to": f"webhook:{end.url}/{tenant}", "secret": SECRET, "tenants": tenant}.items()
    }
    settings = {"sessions__tenant_label": "customer", **routes}
    calls = [("acme", "confirm"), ("globex", "refund"), ("acme", "refund"), ("zeta", "refund"), ("", "refund")]
    records = [as_row(call(number, tenant, tool)) for number, (tenant, tool) in enumerate(calls)]
    fleet.cluster.fill(fleet.events, records[:2])
    name = start(fleet, "first", end, **settings)
    fleet.wait_for(2)
    fleet.kill(name)  # what each tenant's session remembers comes from the changelog
    fleet.cluster.fill(fleet.events, records[2:])
    start(fleet, name, end, **settings)
    fleet.wait_for(len(records))
    fleet.wait_until(lambda: len(arrived(end)) == 3)
    told = {one[0]["session_id"]: one[0].get("labels", {}) for one in arrived(end).values()}
    assert told == {
        "globex/s1": {"customer": "globex", "tenant": "globex"},
        "zeta/s1": {"customer": "zeta", "tenant": "zeta"},
        "s1": {},
    }
    assert arrived(end, "/acme") == {}
    assert [one[0]["session_id"] for one in arrived(end, "/globex").values()] == ["globex/s1"]
    assert set(fleet.sessions()) == {"acme/s1", "globex/s1", "zeta/s1", "s1"}


def call(number: int, tenant: str, tool: str) -> dict[str, Any]:
    event = {"kind": "tool_call", "session_id": "s1", "event_id": f"e{number}", "time": 1e9 + number, "tool": tool}
    return {**event, "labels": {"customer": tenant}} if tenant else event
