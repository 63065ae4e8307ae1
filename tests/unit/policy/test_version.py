from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry

BASE = """
name: one
sessions: {idle: 60}
tool_classes: {write: [a, b]}
rules:
  - id: r
    kind: max_turns
    params: {n: 5}
    when: [{path: request.model, op: "==", value: 5}]
    severity: error
"""


def version(registry: Registry, text: str) -> str:
    return load_policy(text, registry).version


@pytest.mark.parametrize(
    "other",
    [
        BASE.replace("name: one", "name: another  # and a comment"),
        BASE.replace("idle: 60", "idle: 1m"),
        BASE.replace("{n: 5}", "{limit: 5}"),
        BASE.replace("value: 5}", "value: 5.0}"),
        BASE.replace('{path: request.model, op: "==", value: 5}', '{"value": 5, "op": "==", "path": "request.model"}'),
        BASE.replace("    severity: error\n", ""),
        BASE.replace("severity: error", "severity: high"),
        BASE.replace("severity: error", "tests: [{events: []}]"),
        """{rules: [{severity: error, when: [{op: ==, value: 5, path: request.model}], params: {n: 5}, kind: max_turns,
            id: r}], tool_classes: {write: [a, b]}, sessions: {idle: 60}}""",
    ],
)
def test_what_decides_nothing_is_not_in_the_version(registry: Registry, other: str) -> None:
    assert version(registry, other) == version(registry, BASE)


@pytest.mark.parametrize(
    "other",
    [
        BASE.replace("id: r", "id: s"),
        BASE.replace("{n: 5}", "{n: 6}"),
        BASE.replace("idle: 60", "idle: 61"),
        BASE.replace("[a, b]", "[a, c]"),
        BASE.replace("value: 5}", 'value: "5"}'),
        BASE.replace("severity: error", "severity: info"),
        BASE.replace("severity: error", "then: allow"),
        BASE.replace("severity: error", "mode: shadow"),
        BASE.replace("severity: error", "scope: part"),
        BASE.replace("severity: error", "key: [session, run]"),
        BASE.replace("severity: error", "cooldown: 5"),
        BASE.replace("severity: error", "on_error: closed"),
        BASE.replace("severity: error", "unless: {path: labels.x, op: exists}"),
    ],
)
def test_whatever_decides_is_in_the_version(registry: Registry, other: str) -> None:
    assert version(registry, other) != version(registry, BASE)


def test_the_file_a_rule_names_is_part_of_the_version(registry: Registry, tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text("rules: [{id: r, kind: must_match_json_schema, params: {schema_path: s.json}}]")
    versions = set()
    for content in ('{"type": "object"}', '{"type": "array"}'):
        (tmp_path / "s.json").write_text(content)
        versions.add(load_policy(policy, registry).version)
    assert len(versions) == 2


def test_a_version_is_short_and_stable(registry: Registry) -> None:
    found: Any = version(registry, BASE)
    assert len(found) == 16
    assert found == version(registry, BASE)


def test_how_long_a_rule_must_keep_firing_is_in_the_version(registry: Registry) -> None:
    text = BASE.replace("kind: max_turns", "kind: no_call").replace("{n: 5}", "{tool: a}")
    assert version(registry, text.replace("severity: error", "for: 5")) != version(registry, text)
