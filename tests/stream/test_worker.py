"""The worker on a real broker finds what `check` finds, wherever the partitions are and whoever has them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.kafka.cluster import Row
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


def test_a_poison_record_is_a_dead_letter_and_the_next_record_is_judged(fleet: Fleet, policy: Path) -> None:
    rows = sample_rows(20)
    poison = [Row(b"\xff{", b"refund-00003", headers=(("trace", b"7"),)), Row(None, b"refund-00004")]
    fleet.cluster.fill(fleet.events, [*poison, *rows])
    fleet.start()
    fleet.wait_for(len(rows) + 2)
    (letter,) = fleet.cluster.read(fleet.letters)
    headers = dict(letter.headers)
    assert letter.value == b"\xff{"
    assert headers["trace"] == b"7"
    assert headers["stream_guard_origin"].decode().startswith(f"{fleet.events}/")
    assert set(fleet.alert_ids()) == set(checked(rows, policy))


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


def test_a_changed_rule_forgets_its_state_and_the_others_keep_theirs(fleet: Fleet, policy: Path) -> None:
    rows = sample_rows(60, open_every=1)
    fleet.cluster.fill(fleet.events, rows)
    name = fleet.start()
    fleet.wait_for(len(rows))
    before = fleet.sessions()
    fleet.stop(name)
    policy.write_text(policy.read_text().replace("tool.args.amount", "tool.args.order_id"))
    more = [json.loads(row.value or b"") for row in rows[-40:]]
    again = [Row(json.dumps(event | {"event_id": f"{event['event_id']}-more"}).encode(), b"") for event in more]
    again = [row._replace(key=event["session_id"].encode()) for row, event in zip(again, more, strict=True)]
    fleet.cluster.fill(fleet.events, again)
    fleet.start(name)
    fleet.wait_for(len(rows) + len(again))
    after = fleet.sessions()
    fleet.stop(name)
    assert "states forgotten because a rule changed" in fleet.said(name)
    touched = {event["session_id"] for event in more}
    kept = [{tag for tag, _, _ in states[session]["states"]} for states in (before, after) for session in touched]
    assert set.intersection(*kept), "a rule that did not change has its state before and after"
    assert all(after[session]["seq"] > before[session]["seq"] for session in touched)


def test_a_policy_is_changed_while_it_runs_and_a_bad_one_is_not_used(fleet: Fleet, policy: Path) -> None:
    rows = sample_rows(40)
    fleet.cluster.fill(fleet.events, rows)
    name = fleet.start()
    fleet.wait_for(len(rows))
    policy.write_text(policy.read_text() + "  - {id: broken, kind: no_such_kind}\n")
    fleet.wait_until(lambda: "stays in force" in fleet.said(name))
    policy.write_text(
        policy.read_text().replace("  - {id: broken, kind: no_such_kind}\n", "").replace("ledger_*", "l*")
    )
    fleet.wait_until(lambda: "replaces" in fleet.said(name))
    more = [
        row._replace(value=(row.value or b"").replace(b"refund-", b"second-").replace(b"ev-", b"nd-")) for row in rows
    ]
    fleet.cluster.fill(fleet.events, [row._replace(key=b"second-" + (row.key or b"")[7:]) for row in more])
    fleet.wait_for(2 * len(rows))
    versions = {json.loads(record.value)["data"]["policy_version"] for record in fleet.cluster.read(fleet.alerts)}
    assert len(versions) == 2


def test_a_rule_that_looks_across_sessions_is_refused(fleet: Fleet, policy: Path) -> None:
    policy.write_text(policy.read_text() + "  - {id: wide, kind: no_call, params: {tool: x}, key: [agent]}\n")
    name = fleet.start()
    assert fleet.workers[name].wait(60) == 2
    assert "wide (key: agent)" in fleet.said(name)
