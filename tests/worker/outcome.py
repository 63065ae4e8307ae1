"""What a fleet makes of records, beside what a run makes of them that nothing disturbs."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from stream_guard.alerting.delivery import alerts_of
from stream_guard.judge.model import Finding
from stream_guard.kafka.client import partition_of_key
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from tests.kafka.cluster import Row
from tests.worker.fleet import PARTITIONS, Fleet, live_sessions
from tests.worker.partitions import Rows, open_partition, write
from tests.worker.samples import sample_rows

Disturb = Callable[[Fleet, random.Random], None]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run."""

    alerts: dict[str, tuple[str, str]]  # session and rule, by id
    sessions: dict[str, dict[str, Any]]
    repeats: int


def poisoned(sessions: int, *, every: int = 10) -> list[Row]:
    """Sample sessions of which some never end, and a record that cannot be read after each 1,000."""
    rows: list[Row] = []
    for number, row in enumerate(sample_rows(sessions, open_every=every)):
        rows.append(row)
        if number % 1_000 == 999:
            rows.append(Row(b"{broken", row.key))
    return rows


def run(fleet: Fleet, rows: list[Row], disturb: Disturb | None = None, times: int = 0) -> Outcome:
    """Process records with three workers and return the outcome, after ``account`` has checked it."""
    dice = random.Random(times)
    for _ in range(3):
        fleet.start()
    step = max(1, len(rows) // (times + 1))
    for number in range(times + 1):
        piece = rows[number * step : (number + 1) * step if number < times else len(rows)]
        # Disturbed while records come in: killing an idle worker would test nothing.
        filling = Thread(target=fleet.cluster.fill, args=(fleet.events, piece))
        filling.start()
        if number < times and disturb is not None:
            time.sleep(dice.uniform(0.2, 1.2))  # the random moment
            disturb(fleet, dice)
        filling.join()
        fleet.wait_for(number * step)
    fleet.wait_for(len(rows))
    return account(fleet, rows)


def account(fleet: Fleet, rows: list[Row]) -> Outcome:
    """Return the outcome of a run, after checking that every event is in its session or a dead letter."""
    assert fleet.progress() == len(rows), "no more records are applied than there are"
    broken = sum(1 for row in rows if row.value == b"{broken")
    assert len(fleet.dead_letters()) == broken
    sent = Counter(json.loads(row.value or b"")["session_id"] for row in rows if row.value != b"{broken")
    sessions = fleet.sessions()
    assert {name: session["seq"] for name, session in sessions.items()} == {name: sent[name] for name in sessions}
    alerts = fleet.sent()
    found = {alert["id"]: (alert["subject"], alert["data"]["rule_id"]) for alert in alerts}
    assert all(found[alert["id"]] == (alert["subject"], alert["data"]["rule_id"]) for alert in alerts)
    return Outcome(found, sessions, len(alerts) - len(found))


def undisturbed(rows: list[Row], file: Path) -> Outcome:
    """The outcome of a run that nothing disturbs: the partitions one after the other, in this process."""
    policy = load_policy(file, build_registry())
    placed: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    for row in rows:
        log = placed[partition_of_key(row.key or b"", PARTITIONS)]
        log.append(Record(row.value or b"", "events/0", len(log), key=row.key))
    found: list[Finding] = []
    sessions: dict[str, dict[str, Any]] = {}
    for log in placed:
        table: Rows = {}
        partition = open_partition(table, policy, "native", now=time.time)
        partition.fold("events", log, found)
        write(table, partition.snapshot())
        sessions |= live_sessions({key: (0, value) for key, value in table.items()})
    alerts = {alert.alert_id: (alert.session_id, alert.rule_id) for alert in alerts_of(found, "")}
    return Outcome(alerts, sessions, 0)


def compare(found: Outcome, wanted: Outcome, record: Callable[[str, object], None]) -> None:
    """Compare a disturbed run with an undisturbed one; report the number of repeated alerts."""
    record("alerts", len(found.alerts))
    record("repeated alerts", found.repeats)
    print(f"{len(found.alerts)} alerts, {found.repeats} of them sent again, {len(found.sessions)} live sessions")
    assert found.alerts == wanted.alerts
    assert found.sessions == wanted.sessions
