"""What only a window decides holds nothing back: a person is told instead."""

from __future__ import annotations

from pathlib import Path

from stream_guard.guard.gate import Gate
from stream_guard.history.database import SqliteDatabase
from stream_guard.judge.model import Action, ToolCall
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

BURST = """[{"id": "burst", "then": "terminate_session",
  "when": {"call_count_in_window_gt": {"tool": "send", "value": 1, "windowSeconds": 60}}}]"""


def test_a_burst_opens_one_alert_and_no_attempt_is_refused(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "history.db")
    gate = Gate(load_policy(BURST, build_registry(), file="rules.json"), database, clock=lambda: 100.0)
    calls = [ToolCall(session_id="s", event_id=f"e{at}", time=float(at), tool="send", args={}) for at in range(4)]
    assert [gate.check(call).action for call in calls] == [Action.ALLOW] * 4
    assert [(review.kind, review.status) for review in gate.reviews.listing()] == [("anomaly_alert", "open")]
    database.close()
