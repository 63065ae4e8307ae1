"""``scope: session`` is the session; a policy in the words of version 1 means what it meant, and says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_guard.errors import PolicyError
from stream_guard.judge.bound import fingerprint
from stream_guard.judge.model import Event, Scope
from stream_guard.judge.spec import Policy
from stream_guard.policy.convert import to_yaml
from stream_guard.policy.load import load_policy
from stream_guard.ports import PolicyPack
from stream_guard.registry import Registry
from stream_guard.running.batch import evaluate
from stream_guard.testing import events

TWO_PARTS: list[Event] = events([{"user": "a"}, {"call": "pay"}, {"turn": "done"}, {"user": "b"}, {"call": "pay"}])


def load(registry: Registry, scope: str | None, **top: Any) -> Policy:
    rule = {"id": "once", "kind": "max_calls", "params": {"tool": "pay", "n": 1}}
    return load_policy(json.dumps({**top, "rules": [rule | ({"scope": scope} if scope else {})]}), registry)


@pytest.mark.parametrize(
    ("written", "version", "scope", "warns", "findings"),
    [
        ("session", 2, Scope.SESSION, False, 1),
        ("part", 2, Scope.PART, False, 0),
        ("part", None, Scope.PART, False, 0),
        (None, None, Scope.SESSION, False, 1),
        ("trace", None, Scope.SESSION, True, 1),
        ("trace", 2, Scope.SESSION, True, 1),
        ("session", 1, Scope.PART, True, 0),
        ("session", None, Scope.PART, True, 0),
    ],
)
def test_a_scope_is_what_its_file_calls_so(
    registry: Registry, written: str | None, version: int | None, scope: Scope, warns: bool, findings: int
) -> None:
    policy = load(registry, written, **({"version": version} if version else {}))
    assert policy.rules[0].scope is scope
    assert [warning.code for warning in policy.warnings] == ["SG160"] * warns
    assert all(warning.rule_id == "once" for warning in policy.warnings)
    assert len(evaluate(TWO_PARTS, policy)) == findings


@pytest.mark.parametrize(("old", "new"), [("trace", "session"), ("session", "part"), ("run", "run")])
def test_states_and_versions_go_on_under_the_new_words(registry: Registry, old: str, new: str) -> None:
    before, after = load(registry, old), load(registry, new, version=2)
    assert before.version == after.version
    assert fingerprint(before.rules[0]) == fingerprint(after.rules[0])


@pytest.mark.parametrize("old", ["trace", "session", "run"])
def test_a_converted_policy_says_the_same_in_the_new_words(registry: Registry, old: str) -> None:
    before = load(registry, old)
    after = load_policy(to_yaml(before), registry)
    assert (after.version, after.warnings) == (before.version, ())


def test_a_word_for_no_scope_is_refused(registry: Registry) -> None:
    with pytest.raises(PolicyError, match="scope"):
        load(registry, "sessions")


@pytest.mark.parametrize(("version", "scope"), [(1, Scope.PART), (2, Scope.SESSION)])
def test_a_pack_is_read_in_its_own_words(registry: Registry, tmp_path: Path, version: int, scope: Scope) -> None:
    file = tmp_path / "old.yaml"
    rule = {"id": "once", "kind": "max_calls", "params": {"tool": "pay", "n": 1}, "scope": "session"}
    file.write_text(json.dumps({"version": version, "rules": [rule]}))
    packs = {"old": PolicyPack(name="old", summary="An older one.", file=file)}
    policy = load_policy("{version: 2, packs: [old]}", replace(registry, policy_packs=packs))
    assert policy.rules[0].scope is scope
    assert [warning.code for warning in policy.warnings] == ["SG160"] * (version == 1)
