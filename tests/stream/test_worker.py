"""The worker on a real broker finds what `check` finds, wherever the partitions are and whoever has them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.stream.fleet import Fleet
from tests.stream.samples import checked, labels, sample_rows

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("workers", [1, 3])
def test_alerts_are_those_of_check_by_id(fleet: Fleet, policy: Path, workers: int) -> None:
    rows = sample_rows(400)  # 6,000 events; a quarter of the sessions is labelled with the rules that it breaks
    fleet.cluster.fill(fleet.events, rows)
    for _ in range(workers):
        fleet.start()
    fleet.wait_for(len(rows))
    sent = fleet.sent()
    assert {alert["id"]: alert["data"]["rule_id"] for alert in sent} == checked(rows, policy)
    assert labels(400, policy) <= {(alert["subject"], alert["data"]["rule_id"]) for alert in sent}


def test_a_deadline_fires_in_a_session_that_has_fallen_silent(fleet: Fleet, policy: Path) -> None:
    policy.write_text(policy.read_text().replace("idle: 30m", "idle: 2s"))
    (row, *_) = sample_rows(1)
    fleet.cluster.fill(fleet.events, [row])
    fleet.start(worker__idle_grace="1")
    fleet.wait_for(1)
    end = time.monotonic() + 30
    while fleet.sessions() and time.monotonic() < end:
        time.sleep(0.3)
    assert fleet.sessions() == {}


def test_a_rule_that_looks_across_sessions_is_refused_where_events_wait(fleet: Fleet, policy: Path) -> None:
    policy.write_text(policy.read_text().replace("idle: 30m", "idle: 30m, max_out_of_orderness: 5s"))
    policy.write_text(policy.read_text() + "  - {id: wide, kind: no_call, params: {tool: x}, key: [agent]}\n")
    name = fleet.start()
    assert fleet.end_of(name) == 2
    assert "wide (key: agent)" in fleet.said(name)
