"""The policies of the first customer document load exactly as they are written there."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_guard.errors import PolicyError
from stream_guard.judge.model import Scope, Severity
from stream_guard.judge.spec import RuleSpec
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry

CONFIRM = """
rules:
  - id: confirm-large-refunds
    kind: must_call_before
    params:
      first: confirm_refund_amount
      second: issue_refund
    when:
      - { path: "request.params.amount", op: ">", value: 500 }
      - { path: "request.model", op: "==", value: "gpt-4.1" }
    severity: error
"""
LOCKED = """
rules:
  - id: amount-locked-after-confirmation
    kind: must_remain_consistent
    params: { path: "request.params.amount" }
    severity: error
"""
FOLLOWUP = """
rules:
  - id: confirm-after-quote
    kind: must_followup
    params:
      trigger:
        - { path: "response.stop_reason", op: "==", value: "tool_use" }
        - { path: "response.content", op: "contains", value: "quote_total" }
      must: { kind: tool_call, tool_name: confirm_with_user }
    severity: error
"""
GROUNDING = """
rules:
  - id: rag-grounding
    kind: must_be_grounded
    params:
      retrieval_path: "request.metadata.retrieved_chunks"
      min_unigram_precision: 0.5
    severity: error
"""
STRUCTURED = """
rules:
  - id: structured-output
    kind: must_match_json_schema
    params:
      schema_path: schemas/refund_decision.schema.json
    severity: error
"""
BUDGET = """
rules:
  - id: per-conversation-budget
    kind: max_total_tokens
    params: { n: 4000 }
    scope: session
    severity: warning
"""
TWELVE = (
    "must_call_before",
    "must_call_once",
    "no_call",
    "max_turns",
    "required_stop_reason",
    "max_total_tokens",
    "must_include_text",
    "forbidden_text",
    "must_match_json_schema",
    "must_remain_consistent",
    "must_followup",
    "must_be_grounded",
)


def only(text: str, registry: Registry, folder: Path | None = None) -> RuleSpec:
    policy = load_policy(text, registry, folder=folder)
    assert policy.warnings == ()
    (rule,) = policy.rules
    return rule


def test_all_twelve_kinds_are_installed(registry: Registry) -> None:
    assert set(TWELVE) <= set(registry.kinds)


@pytest.mark.parametrize("text", [CONFIRM, LOCKED, FOLLOWUP, GROUNDING])
def test_an_example_loads_as_it_is_written(registry: Registry, text: str) -> None:
    rule = only(text, registry)
    assert (rule.severity, rule.scope) == (Severity.ERROR, Scope.SESSION)
    assert f"id: {rule.id}" in text
    assert f"kind: {rule.kind}" in text


def test_the_budget_is_for_each_part_that_a_user_began(registry: Registry) -> None:
    policy = load_policy(BUDGET, registry)
    assert [(rule.severity, rule.scope) for rule in policy.rules] == [(Severity.WARNING, Scope.PART)]
    assert [warning.code for warning in policy.warnings] == ["SG160"]
    assert only(f"apiVersion: shadow.dev/v1alpha1\n{BUDGET}", registry).scope is Scope.PART


def test_the_schema_is_read_from_beside_the_policy(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(PolicyError):
        only(STRUCTURED, registry, tmp_path)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "refund_decision.schema.json").write_text('{"type": "object"}')
    assert only(STRUCTURED, registry, tmp_path).kind == "must_match_json_schema"


def test_every_operator_of_the_document_is_known(registry: Registry) -> None:
    for op, value in {
        "==": 1, "!=": 1, ">": 1, ">=": 1, "<": 1, "<=": 1, "in": [1], "not_in": [1], "contains": 1, "not_contains": 1,
    }.items():  # fmt: skip
        when = f'{{path: model, op: "{op}", value: {value}}}'
        assert (
            only(f"{{rules: [{{id: r, kind: max_turns, params: {{n: 1}}, when: {when}}}]}}", registry).when is not None
        )
