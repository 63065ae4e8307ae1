from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_guard.policy.convert import to_yaml, write_yaml
from stream_guard.policy.document import read_document
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [
        "yes",
        "null",
        "~",
        "0o7",
        "1e5",
        ".5",
        "-",
        "- x",
        "a: b",
        "a #b",
        "<<",
        "@x",
        "!t",
        "*a",
        "&a",
        "%",
        "'",
        "? x",
        "|",
        "12:30",
    ]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(texts, values, min_size=1, max_size=4) | st.lists(values, min_size=1, max_size=4))
def test_what_is_written_reads_back_as_the_same_data(data: object) -> None:
    assert read_document(write_yaml(data), "p.yaml").data == data


def test_nothing_is_written_as_nothing() -> None:
    assert (write_yaml({}), write_yaml([])) == ("{}\n", "[]\n")


@pytest.mark.parametrize("name", ["refunds", "coding_agent", "personal_assistant"])
def test_a_native_policy_keeps_its_version(registry: Registry, root: Path, name: str) -> None:
    folder = root / "deploy" / "policies"
    policy = load_policy(folder / f"{name}.yaml", registry)
    again = load_policy(to_yaml(policy), registry, folder=folder)
    assert (again.version, again.name, again.tool_classes) == (policy.version, policy.name, policy.tool_classes)
    assert [rule.severity_word for rule in again.rules] == [rule.severity_word for rule in policy.rules]
    assert to_yaml(again) == to_yaml(policy)


def test_a_shadow_policy_becomes_a_native_one(registry: Registry) -> None:
    source = [
        {"kind": "must_call_before", "params": {"first": "a", "then": "b"}},
        {"id": "x", "kind": "max_turns", "params": {"limit": 3}, "severity": "info"},
        {"id": "x", "kind": "required_stop_reason", "params": {"allowed": "end_turn"}, "description": "no: cuts"},
    ]
    policy = load_policy(json.dumps(source), registry)
    text = to_yaml(policy)
    assert text == (
        "version: 2\n"
        "rules:\n"
        "  - id: rule-0\n"
        "    kind: must_call_before\n"
        "    params: {first: a, second: b}\n"
        "    severity: error\n"
        "  - id: x\n"
        "    kind: max_turns\n"
        "    params: {n: 3}\n"
        "    severity: info\n"
        '  - id: "x#2"\n'
        "    kind: required_stop_reason\n"
        "    params: {allowed: [end_turn]}\n"
        "    severity: error\n"
        '    reason: "no: cuts"\n'
    )
    again = load_policy(text, registry)
    assert again.version == policy.version
    assert again.warnings == ()


def test_everything_the_engine_adds_survives(registry: Registry) -> None:
    text = """
name: full
sessions: {idle: 90, max_out_of_orderness: 1.5}
tool_classes: {write: [a, "b*"]}
rules:
  - id: full
    kind: no_call
    params: {tool: "@write"}
    when: {not: {any_of: [{path: model, op: matches, value: "^a\\\\."}, {path: labels.x, op: exists, value: false}]}}
    unless: [{path: labels.y, op: "==", value: null}]
    scope: run
    key: [session, args.x]
    severity: medium
    then: pause
    reason: "a\\nb"
    mode: shadow
    on_error: open
    cooldown: 0.5
    for: 2d
    tags: ["yes", "1"]
    tests: [{events: [{call: x}], findings: [0]}]
"""
    policy = load_policy(text, registry)
    again = load_policy(to_yaml(policy), registry)
    assert again.version == policy.version
    for one, other in zip(policy.rules, again.rules, strict=True):
        assert (one.when, one.unless, one.tests, one.reason) == (other.when, other.unless, other.tests, other.reason)
        assert (one.hold, one.cooldown, one.on_error, one.tags) == (
            other.hold,
            other.cooldown,
            other.on_error,
            other.tags,
        )
