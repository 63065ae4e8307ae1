"""The alerts of workers on a real broker are those of `check`, however the partitions are assigned."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.worker.fleet import Fleet
from tests.worker.samples import checked, labels, sample_rows

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 3])
def test_alerts_are_those_of_check_by_id(fleet: Fleet, policy: Path, workers: int) -> None:
    rows = sample_rows(400)  # 6,000 events; a quarter of the sessions is labelled with the rules that it breaks
    fleet.cluster.fill(fleet.events, rows)
    for _ in range(workers):
        fleet.start()
    fleet.wait_for(len(rows))
    sent = fleet.sent()
    assert {alert["id"]: alert["data"]["rule_id"] for alert in sent} == checked(rows, policy)
    assert labels(400, policy) <= {(alert["subject"], alert["data"]["rule_id"]) for alert in sent}


@pytest.mark.parametrize("transactional", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_deadline_fires_in_an_idle_session(fleet: Fleet, policy: Path, transactional: bool) -> None:
    policy.write_text(policy.read_text().replace("idle: 30m", "idle: 2s"))
    (row, *_) = sample_rows(1)
    if transactional:  # the transaction marker has the last offset, and is never delivered
        producer = KafkaProducer(bootstrap_servers=fleet.cluster.address, transactional_id=fleet.events)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(fleet.events, key=row.key, value=row.value)
        producer.commit_transaction()
        producer.close()
    else:
        fleet.cluster.fill(fleet.events, [row])
    fleet.start(worker__idle_grace="1")
    fleet.wait_for(1)
    fleet.wait_until(lambda: not fleet.sessions(), within=30)


def test_a_rule_that_looks_across_sessions_is_refused_where_events_wait(fleet: Fleet, policy: Path) -> None:
    policy.write_text(policy.read_text().replace("idle: 30m", "idle: 30m, max_out_of_orderness: 5s"))
    policy.write_text(policy.read_text() + "  - {id: wide, kind: no_call, params: {tool: x}, key: [agent]}\n")
    name = fleet.start()
    assert fleet.end_of(name) == 2
    assert "wide (key: agent)" in fleet.log_of(name)
