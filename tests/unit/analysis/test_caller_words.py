"""``lint`` names what a rule that stops takes from its caller, and nothing that a token or a rule says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_guard.analysis.policy_review import believed_words
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

REGISTRY = build_registry()
LABEL = [{"path": "labels.vip", "op": "==", "value": "yes"}]


def warned(**more: Any) -> list[str]:
    rule = {"id": "r", "kind": "max_calls", "params": {"tool": "pay", "n": 1}, "then": "block", **more}
    setter = {"id": "s", "kind": "no_call", "params": {"tool": "rm"}, "set_labels": {"risky": "yes"}}
    policy = load_policy(json.dumps({"rules": [rule, setter]}), REGISTRY, file="p.json")
    return [str(problem) for problem in believed_words(policy)]


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"key": ["labels.user"]}, "labels.user"),
        ({"key": ["run"]}, "run"),
        ({"scope": "run"}, "run"),
        ({"scope": "part"}, "part"),
        ({"unless": LABEL}, "labels.vip"),
        ({"when": {"not": LABEL[0]}}, "labels.vip"),
        ({"when": [{"path": "run_id", "op": "!=", "value": "r0"}]}, "run_id"),
        ({"unless": [{"path": "agent", "op": "==", "value": "admin"}]}, "agent"),
    ],
)
def test_a_rule_that_stops_by_what_the_caller_says_is_named(more: dict[str, Any], word: str) -> None:
    [said] = warned(**more)
    assert f'what their caller says: "{word}";' in said
    assert "SG159" in said


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"key": ["agent"]},
        {"key": ["labels.tenant"]},
        {"key": ["session", "tool"]},
        {"when": [{"path": "labels.risky", "op": "==", "value": "yes"}]},
        {"key": ["labels.user"], "then": "allow"},
        {"key": ["labels.user"], "mode": "shadow"},
    ],
)
def test_what_a_token_or_a_rule_says_is_believed_and_rules_that_only_watch_are_left_alone(more: dict[str, Any]) -> None:
    assert warned(**more) == []
