"""What an earlier version stored, this one goes on with.

``tests/golden/stored`` has a policy with a rule of every kind, a checkpoint that the version of 15 November 2026 wrote
after the events of ``first.jsonl``, and what that version then said of those in ``second.jsonl``. The files are never
written again: an edit that makes this test fail would make a user's rules forget what they know.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec

from stream_guard.judge.model import Event, Finding, Json
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.settings import PluginSettings
from stream_guard.storage.stores import CheckpointStore
from tests.replaying import ReplayingGuard

STORED = Path(__file__).parents[1] / "golden" / "stored"
REGISTRY = build_registry(PluginSettings(allow=("rules",)))
POLICY = load_policy(STORED / "policy.yaml", REGISTRY)


# Kinds that came after that version: it stored nothing of theirs.
LATER = {
    "arg_provenance",
    "max_aggregate",
    "max_cost",
    "max_delegation",
    "max_failed_retries",
    "must_be_given",
    "must_be_offered",
    "must_call_after",
    "must_match_lookup",
    "must_not_stall",
    "must_satisfy_judge",
    "no_change_after_approval",
    "no_denial_evasion",
    "no_false_claim",
    "no_handoff_loop",
    "no_hidden_failure",
    "no_injected_call",
    "no_repeated_calls",
    "no_repeated_results",
    "no_sequence",
    "no_tool_change",
    "no_value_flow",
}


def judge(store: CheckpointStore, events: str) -> tuple[ReplayingGuard, list[list[Json]]]:
    guard = ReplayingGuard(POLICY, store=store)
    lines = (STORED / events).read_bytes().splitlines()
    found = [finding for line in lines for finding in guard.observe(msgspec.json.decode(line, type=Event))]
    return guard, [told(finding) for finding in found]


def told(finding: Finding) -> list[Json]:
    """Return all that a state decides about a finding; the words for it may become better."""
    row = [finding.rule_id, finding.session_id, finding.index, finding.at, finding.alert_id]
    return [*row, finding.evidence]


def stored_findings() -> list[list[Json]]:
    rows = [json.loads(line) for line in (STORED / "findings.jsonl").read_text().splitlines()]
    return [[*row[:5], row[6]] for row in rows]


def test_every_kind_of_that_version_has_a_rule() -> None:
    assert {rule.kind for rule in POLICY.rules} == set(REGISTRY.kinds) - LATER


def without_ids(found: list[list[Json]]) -> list[list[Json]]:
    """Findings without their ids, which are others since that version (docs/upgrade.md), in an order of their own."""
    return sorted([[*row[:4], *row[5:]] for row in found], key=str)


def test_a_checkpoint_of_an_earlier_version_is_gone_on_with(tmp_path: Path) -> None:
    shutil.copy(STORED / "checkpoint.db", tmp_path)
    store = CheckpointStore(tmp_path / "checkpoint.db")
    guard, found = judge(store, "second.jsonl")
    store.close()
    assert guard.counts.state_resets == 0
    assert without_ids(found) == without_ids(stored_findings())


def test_without_the_checkpoint_the_findings_are_others(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "empty.db")
    _, found = judge(store, "second.jsonl")
    store.close()
    stateful = {
        "max-calls",
        "max-turns",
        "must-call-once",
        "must-complete",
        "must-followup",
        "must-refuse",
        "must-remain-consistent",
    }
    expected = stored_findings()
    assert stateful <= {row[0] for row in expected if row not in found}
