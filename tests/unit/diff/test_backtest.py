"""A change of policy is tried on what was recorded."""

from __future__ import annotations

import pytest

from stream_guard.analysis.backtest import compare_policies
from stream_guard.analysis.labels import read_labels
from stream_guard.errors import SettingsError
from stream_guard.judge.model import Event, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

REGISTRY = build_registry()


def policy(text: str) -> Policy:
    return load_policy(text, REGISTRY, file="policy.yaml")


def calls(name: str, *tools: str) -> list[Event]:
    return [ToolCall(session_id=name, event_id=f"{name}-{number}", tool=tool) for number, tool in enumerate(tools)]


OLD = "rules: [{id: no-mail, kind: no_call, params: {tool: mail}}, {id: gone, kind: no_call, params: {tool: refund}}]"
NEW = "rules: [{id: no-mail, kind: no_call, params: {tool: mail}}, {id: drop, kind: no_call, params: {tool: drop}}]"
EVENTS = calls("a", "mail", "drop") + calls("b", "drop") + calls("c", "refund") + calls("d", "look")


def test_alerts_that_a_policy_adds_and_removes_are_listed() -> None:
    found = compare_policies(EVENTS, policy(NEW), policy(OLD))
    assert [(alert.rule_id, alert.session_id) for alert in found.added] == [("drop", "a"), ("drop", "b")]
    assert [(alert.rule_id, alert.session_id) for alert in found.removed] == [("gone", "c")]
    assert found.kept == 1


def test_the_same_policy_changes_nothing() -> None:
    found = compare_policies(EVENTS, policy(NEW), policy(NEW))
    assert (found.added, found.removed, found.kept) == ((), (), 3)


def test_labels_give_precision_recall_and_benign_alerts() -> None:
    labels = read_labels(b'{"a": true, "b": false, "c": ["drop"], "d": false}', "labels.json")
    score = next(one for one in compare_policies(EVENTS, policy(NEW), policy(OLD), labels=labels).new_scores)
    assert score.rule_id == "no-mail"
    assert (score.precision, score.recall, score.benign_alert_rate) == (1.0, 1.0, 0.0)
    drop = compare_policies(EVENTS, policy(NEW), policy(OLD), labels=labels).new_scores[1]
    assert (drop.precision, drop.recall, drop.benign_alert_rate) == (0.5, 0.5, 0.5)


def test_labels_of_another_form_are_refused_with_advice() -> None:
    with pytest.raises(SettingsError, match=r"labels\.json.*session-1"):
        read_labels(b'{"a": "yes"}', "labels.json")
