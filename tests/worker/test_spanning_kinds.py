"""Kinds that add up over many sessions, on many partitions: three workers that are killed find what `check` finds."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from stream_guard.kafka.client import partition_of_key
from stream_guard.worker.stages import TopicPartition
from tests.kafka.cluster import Row
from tests.worker.fleet import Fleet
from tests.worker.samples import as_row, checked
from tests.worker.test_spanning import SPANNING, Broker, tenants

DAY = 86_400.0

POLICY = """
sessions: {idle: 90d}
rules:
  - id: sum-by-tenant
    kind: max_aggregate
    params: {tool: issue_refund, measure: sum, path: tool.args.amount, over: 900, window_seconds: 600}
    key: [labels.tenant]
  - id: orders-by-agent
    kind: max_aggregate
    params: {tool: issue_refund, measure: distinct, path: tool.args.order_id, over: 2, window_seconds: 3600}
    key: [agent]
  - id: errors-by-tool
    kind: max_aggregate
    params:
      of: result
      measure: ratio
      where: {path: tool.result.status, op: "==", value: error}
      over: 0.1
      min_sample: 10
      window_seconds: 3600
    key: [tool]
  - id: budget-by-tenant-and-day
    kind: max_cost
    params: {usd: 0.5, warn_at: 0.3, per: day}
    key: [labels.tenant]
  - id: tools-as-given
    kind: no_tool_change
    params: {}
    key: [agent]
  - id: many-refunds-and-another-quote
    kind: no_sequence
    params: {steps: [{tool: issue_refund, at_least: 3}, {tool: quote_refund}], within_seconds: 1200}
    key: [labels.tenant]
  - id: quoted-and-not-confirmed
    kind: must_call_after
    params: {first: quote_refund, then: confirm_refund_amount, within_seconds: 30}
    key: [agent]
  - id: large
    kind: tool_guard
    params: {when: {tool_name_in: [issue_refund], arg_gt: {path: amount, value: 500}}}
    mode: shadow
    set_labels: {size: large}
  - id: after-large-refunds
    kind: max_aggregate
    params: {of: turn, measure: count, over: 1, window_seconds: 3600}
    when: {path: labels.size, op: "==", value: large}
    key: [agent]
"""
RULES = {line.removeprefix("  - id: ") for line in POLICY.splitlines() if line.startswith("  - id: ")} - {"large"}


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Rules over many sessions, and one that labels sessions for another."""
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


def two_days(sessions: int, partitions: int) -> list[Row]:
    """Sessions of two days: each turn costs something, and on the second day one agent is given another tool."""
    rows = []
    for row in tenants(sessions, partitions):
        event: dict[str, Any] = json.loads(row.value or b"")
        later = event["session_id"].startswith("late") or int(event["session_id"][-5:]) >= sessions // 2
        event["time"] += DAY if later else 0.0
        if event["kind"] == "turn":
            event["response"]["usage"] = event["response"].get("usage", {}) | {"cost_usd": 0.02}
            words = "Pays back." if later and event["agent"] == "agent-3" else "Refunds."
            event["request"]["tools"] = [{"name": "issue_refund", "description": words}]
        if event["kind"] == "tool_result" and crc32(event["event_id"].encode()) % 5 == 0:
            event["status"] = "error"
        rows.append(as_row(event))
    return rows


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_kinds_over_many_sessions_find_what_check_finds_whatever_crashes(policy: Path, seed: int) -> None:
    broker = Broker(policy, 3, random.Random(seed), 40 * seed)
    rows = two_days(60, 3)
    for row in rows:
        broker.append(TopicPartition("events", partition_of_key(row.key or b"", 3)), row.value or b"", row.key)
    asyncio.run(broker.run())
    wanted = checked(rows, policy)
    assert set(wanted.values()) == RULES
    assert set(broker.alerts) == set(wanted)


@pytest.mark.slow
@pytest.mark.kafka
def test_kinds_over_many_sessions_find_what_check_finds_with_three_workers_that_are_killed(
    fleet: Fleet, policy: Path
) -> None:
    rows, dice = two_days(400, fleet.partitions), random.Random(11)
    fleet.fill_while_workers_die(rows, 3, dice)
    wanted = checked(rows, policy)
    assert set(wanted.values()) == RULES
    fleet.wait_for_all(SPANNING)
    fleet.wait_until(lambda: set(wanted) <= set(fleet.alert_ids()))
    assert {alert["id"]: alert["data"]["rule_id"] for alert in fleet.sent()} == wanted
