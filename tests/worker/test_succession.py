"""A worker that takes over a partition has its states. A changed rule starts with empty ones."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_guard.judge.counts import Counts
from stream_guard.judge.fold import Engine
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from tests.kafka.cluster import Cluster, Row
from tests.worker.fleet import Fleet
from tests.worker.samples import as_row, checked, sample_rows

pytestmark = pytest.mark.kafka

CHANGED = "amount-stays-confirmed"
CROWD = 100_000

REMEMBER = """
sessions: {idle: 30d}
rules:
  - {id: confirmed, kind: must_call_before, params: {first: confirm, second: refund}}
  - {id: twice, kind: max_calls, params: {tool: refund, n: 1}}
"""


def call(session: int, number: int, tool: str) -> Row:
    """One tool call of a session."""
    time = 1_767_600_000.0 + number * 60 + session / 1e4
    event = {"kind": "tool_call", "event_id": f"e{number}", "session_id": f"s{session}", "time": time, "tool": tool}
    return as_row(event)


@pytest.mark.slow
def test_a_partition_with_100_000_live_sessions_is_taken_over_and_every_one_is_remembered(
    cluster: Cluster, tmp_path: Path, policy: Path, record_property: Callable[[str, object], None]
) -> None:
    policy.write_text(REMEMBER)
    fleet = Fleet(cluster, tmp_path, policy, partitions=1)
    try:
        # Every third session has not confirmed; all of them have paid once.
        before = [call(n, 0, "confirm" if n % 3 else "look") for n in range(CROWD)]
        before += [call(n, 1, "refund") for n in range(CROWD)]
        fleet.cluster.fill(fleet.events, before)
        first = fleet.start(worker__poll_records="2000")
        fleet.wait_for(len(before))
        assert len(fleet.sessions()) == CROWD
        fleet.kill(first)
        after = [call(n, 2, "refund") for n in range(0, CROWD, 100)]
        fleet.cluster.fill(fleet.events, after)
        began = time.monotonic()
        fleet.start("successor", worker__poll_records="2000")
        fleet.wait_for(len(before) + 1, patience=600.0)
        seconds = time.monotonic() - began
        record_property("seconds to take over", round(seconds, 1))
        print(f"{CROWD} live sessions were taken over in {seconds:.1f} s, the start of the process included")
        fleet.wait_for(len(before) + len(after))
        assert set(fleet.alert_ids()) == set(checked([*before, *after], policy))
        twice = {alert["subject"] for alert in fleet.sent() if alert["data"]["rule_id"] == "twice"}
        assert twice == {f"s{n}" for n in range(0, CROWD, 100)}
    finally:
        fleet.close()


@pytest.mark.long
def test_a_rolling_restart_with_a_changed_rule_resets_its_states_and_no_others(fleet: Fleet, policy: Path) -> None:
    policy.write_text(policy.read_text().replace("idle: 30m", "idle: 30d"))
    early, late = halves(sample_rows(120))
    tag = tag_of(CHANGED, policy)
    names = [fleet.start(options=("--no-serve", "--no-reload")) for _ in range(3)]
    fleet.cluster.fill(fleet.events, early)
    fleet.wait_for(len(early))
    holding = [name for name, session in fleet.sessions().items() if tag in {state[0] for state in session["states"]}]
    assert len(holding) > 50
    policy.write_text(policy.read_text().replace("tool.args.amount", "tool.args.order_id"))
    for name in names:
        fleet.stop(name)
        fleet.start(name, options=("--no-serve", "--no-reload"))
    fleet.cluster.fill(fleet.events, late)
    fleet.wait_for(len(early) + len(late))
    for name in names:
        fleet.stop(name)
    resets = re.findall(r"(\d+) states forgotten because a rule changed", "".join(map(fleet.log_of, names)))
    assert sum(map(int, resets)) == len(holding)
    found = {alert["id"]: alert["data"]["rule_id"] for alert in fleet.sent()}
    wanted = checked([*early, *late], policy)
    assert unchanged(found) == unchanged(wanted), "the states of the other rules survive the restart"


def unchanged(found: dict[str, str]) -> dict[str, str]:
    """The alerts of the rules that did not change."""
    return {alert: rule for alert, rule in found.items() if rule != CHANGED}


def tag_of(rule: str, policy: Path) -> int:
    """The tag of a rule in stored states."""
    engine = Engine(load_policy(policy, build_registry()), Counts(), mode="stream")
    return next(tag for tag, bound in engine.by_tag.items() if bound.spec.id == rule)


def halves(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The first half of every session, and the second."""
    left, seen = Counter(row.key for row in rows), Counter[bytes | None]()
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        seen[row.key] += 1
        parts[seen[row.key] > left[row.key] // 2].append(row)
    return parts
