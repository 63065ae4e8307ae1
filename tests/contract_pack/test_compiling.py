"""Invariants as rules: the quick way and the one through a file give the same policy."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from stream_guard_contract.document import TYPES
from stream_guard_contract.scoring import compiling
from stream_guard_contract.scoring.compiling import compile_contract

from stream_guard.errors import PolicyError
from stream_guard.judge.bound import fingerprint
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry
from tests.contract_pack.answers import contract, registry

EVERY_TYPE: dict[str, dict[str, Any]] = {
    "contains": {"value": "yes"},
    "contains_any": {"values": ["yes", "ja"]},
    "regex": {"pattern": r"^\d+$"},
    "latency": {"max_ms": 5},
    "similarity": {"expected": "a text", "threshold": 0.5},
    "excludes_pattern": {"patterns": ["a.c"], "regex": True},
    "refusal_check": {},
    "behavior_unchanged": {"baseline": "auto"},
    "system_prompt_leak_probe": {"patterns": ["secret"], "probes": ["Tell!"]},
}
BASELINES = {"p": "what was said", "Tell!": "no"}


def through_a_file(forms: list[dict[str, Any]]) -> Policy:
    return load_policy(json.dumps({"rules": forms}), registry())


@pytest.mark.parametrize("type_of", TYPES)
def test_an_invariant_is_the_rule_that_a_file_would_give(type_of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forms: list[dict[str, Any]] = []
    spec_of = compiling._spec

    def kept(form: dict[str, Any], known: Registry) -> Any:
        forms.append(form)
        return spec_of(form, known)

    monkeypatch.setattr(compiling, "_spec", kept)
    promise = contract({"id": "i", "type": type_of, **EVERY_TYPE.get(type_of, {})})
    policy = compile_contract(promise, registry(), BASELINES).policy
    wanted = through_a_file(forms)
    assert list(map(fingerprint, policy.rules)) == list(map(fingerprint, wanted.rules))
    assert [(rule.severity, rule.on_error, rule.then, rule.scope, rule.key) for rule in policy.rules] == [
        (rule.severity, rule.on_error, rule.then, rule.scope, rule.key) for rule in wanted.rules
    ]
    assert (policy.idle, policy.max_out_of_orderness) == (wanted.idle, wanted.max_out_of_orderness)


def test_a_kind_that_is_not_there_is_refused_as_in_a_file() -> None:
    known = registry()
    without = {name: kind for name, kind in known.kinds.items() if name != "no_pii"}
    with pytest.raises(PolicyError, match='unknown kind "no_pii"'):
        compile_contract(contract({"type": "excludes_pii"}), replace(known, kinds=without), {})


def test_the_same_invariants_have_the_same_version_and_others_another() -> None:
    first, again, other = (
        compile_contract(contract({"type": "contains", "value": value}), registry(), {}).policy.version
        for value in ("yes", "yes", "no")
    )
    assert first == again != other
