"""Rules are scored against labels, with intervals and delay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stream_guard.analysis.labels import ANY_RULE, DetectionShare, read_labels, score_rules, score_table
from stream_guard.cli.app import app
from stream_guard.errors import SettingsError
from stream_guard.judge.model import Finding, Severity


def finding(rule: str, session: str, index: int) -> Finding:
    return Finding(
        alert_id=f"{rule}{session}{index}",
        rule_id=rule,
        slot=rule,
        kind="no_call",
        severity=Severity.ERROR,
        session_id=session,
        event_id="e",
        index=index,
        time=None,
        detail="",
    )


def test_a_session_counts_once_and_one_without_a_label_not_at_all() -> None:
    found = [finding("a", "bad", 1), finding("a", "bad", 2), finding("a", "fine", 0), finding("a", "unknown", 0)]
    score = score_rules(["a", "b"], found, {"bad": True, "missed": True, "fine": False, "quiet": False})
    by_rule = {one.rule_id: one for one in score}
    for one in (by_rule["a"], by_rule[ANY_RULE]):
        assert [one.precision, one.recall, one.benign] == [DetectionShare(1, 2)] * 3
        assert one.delay is None
    assert by_rule["b"].precision == DetectionShare(0, 0)
    assert by_rule["b"].recall == DetectionShare(0, 2)


def test_a_label_may_name_the_rules_that_a_session_breaks() -> None:
    labels = read_labels(b'{"s": ["a"], "t": []}', "labels.json")
    score = {one.rule_id: one for one in score_rules(["a", "b"], [finding("b", "s", 0)], labels)}
    assert score["a"].recall == DetectionShare(0, 1)
    assert score["b"].precision == DetectionShare(0, 1)
    assert score[ANY_RULE].recall == DetectionShare(1, 1)


def test_delay_is_counted_from_the_turn_of_the_label() -> None:
    labels = {"s": 2, "t": 0, "u": True}
    found = [finding("a", "s", 3), finding("a", "t", 5), finding("a", "u", 9)]
    assert score_rules(["a"], found, labels)[0].delay == 3


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"), [(0, 10, 0.0, 0.28), (10, 10, 0.72, 1.0), (50, 100, 0.40, 0.60)]
)
def test_interval_is_wilsons(hits: int, of: int, low: float, high: float) -> None:
    interval = DetectionShare(hits, of).interval
    assert interval is not None
    assert list(interval) == pytest.approx([low, high], abs=0.005)


def test_a_share_of_nothing_is_shown_as_such() -> None:
    assert str(DetectionShare(0, 0)) == "-"
    assert score_table(score_rules(["a"], [], {}))[1].split() == ["a", "-", "-", "-", "-"]


def test_labels_that_are_none_are_refused_with_advice() -> None:
    with pytest.raises(SettingsError, match=r'labels.json: .*write {"session-1": true'):
        read_labels(b'{"a": "yes"}', "labels.json")


def test_check_prints_how_right_rules_are(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("rules: [{id: no-drop, kind: no_call, params: {tool: drop}}]")
    calls = [("s1", "drop"), ("s2", "look"), ("s3", "drop")]
    lines = [
        json.dumps({"kind": "tool_call", "session_id": session, "event_id": session, "tool": tool, "args": {}})
        for session, tool in calls
    ]
    (tmp_path / "trace.jsonl").write_text("\n".join(lines))
    (tmp_path / "labels.json").write_text('{"s1": true, "s2": false, "s3": false}')
    arguments = ["check", str(tmp_path / "trace.jsonl"), "--policy", str(tmp_path / "policy.yaml")]
    result = CliRunner().invoke(app, [*arguments, "--labels", str(tmp_path / "labels.json")])
    assert "no-drop     0.50 [0.09, 0.91]" in result.stdout
    missing = CliRunner().invoke(app, [*arguments, "--labels", str(tmp_path / "none.json")])
    assert missing.exit_code != 0
