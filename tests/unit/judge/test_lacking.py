"""What an event must have to be judged: without it a rule is unevaluable, and says what was missing."""

from __future__ import annotations

from typing import Any

import pytest

from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding, Turn
from stream_guard.registry import build_registry
from stream_guard.testing import one_rule_policy, run_rule

KINDS = build_registry().kinds
_TOKENS = {"n": 10}
_SECRET = {"text": "secret"}


def judge(kind: str, params: dict[str, Any], trace: list[dict[str, Any]], **engine: Any) -> tuple[int, set[str]]:
    """Return how many findings there are, and what events lacked."""
    counts = Counts()
    found = run_rule(KINDS[kind], params, trace, counts=counts, **engine)
    assert sum(counts.lacking.values()) == counts.total("unevaluable")
    return len(found), {lacks for _, lacks in counts.lacking}


@pytest.mark.parametrize(
    ("kind", "params", "event", "lacks"),
    [
        ("max_total_tokens", _TOKENS, {"turn": "a"}, "a usage with input"),
        (
            "max_total_tokens",
            _TOKENS,
            {"turn": "a", "usage": {"tokens_in": 50}},
            "a usage with input and output tokens",
        ),
        (
            "max_total_tokens",
            _TOKENS,
            {"turn": "a", "usage": {"input_tokens": 5}},
            "a usage with input and output tokens",
        ),
        ("max_latency", {"max_ms": 10}, {"turn": "a"}, "latency_ms"),
        (
            "forbidden_text",
            {**_SECRET, "where": "tool_args"},
            {"call": "x", "args": None},
            "the arguments or the output",
        ),
        ("forbidden_text", {**_SECRET, "where": "tool_result"}, {"result": "x"}, "the arguments or"),
        ("forbidden_text", {**_SECRET, "where": "user"}, {"user": ""}, "content"),
        ("tool_guard", {"when": {"arg_gt": {"path": "n", "value": 1}}}, {"call": "x", "args": None}, "arguments"),
        ("must_remain_consistent", {"path": "request.seed"}, {"turn": "a", "request": None}, "the field that its path"),
        ("must_be_grounded", {"retrieval_path": "request.chunks"}, {"turn": "a"}, "chunks at its retrieval_path"),
        ("ltl_formula", {"formula": "G !stop_reason:refusal"}, {"turn": "a", "stop": None}, "a stop_reason"),
    ],
)
def test_an_event_without_what_a_kind_needs_is_no_pass(
    kind: str, params: dict[str, Any], event: dict[str, Any], lacks: str
) -> None:
    found, lacking = judge(kind, params, [event])
    assert found == 0
    assert len(lacking) == 1
    assert lacking.pop().startswith(lacks)


@pytest.mark.parametrize(("kind", "params", "hits"), [("must_have_text", {}, 1), ("forbidden_text", _SECRET, 0)])
def test_a_turn_without_content_may_be_wrong_but_never_right(kind: str, params: dict[str, Any], hits: int) -> None:
    counts, found = Counts(), list[Finding]()
    table = Judge(one_rule_policy(KINDS[kind], params), counts=counts)
    found += table.feed(Turn(session_id="s", event_id="1", response={"stop_reason": "end_turn"})).findings
    found += table.end()
    assert (len(found), counts.total("unevaluable")) == (hits, 1 - hits)


def test_a_response_that_failed_has_no_content_to_miss() -> None:
    failed = {"turn": None, "response": {"error": "HTTP 503"}, "stop": "error"}
    assert judge("forbidden_text", _SECRET, [failed]) == (0, set())


def test_a_tool_that_was_blocked_has_no_output_to_miss() -> None:
    trace = [{"call": "x", "id": "a"}, {"result": "x", "id": "a", "status": "blocked"}]
    assert judge("forbidden_text", {**_SECRET, "where": "tool_result"}, trace) == (0, set())


@pytest.mark.parametrize("path", ["model", "request.model", "stop_reason", "response.usage.output_tokens"])
def test_a_gate_over_a_field_that_the_turn_leaves_out_is_unevaluable_at_its_calls_too(path: str) -> None:
    gate = [{"path": path, "op": "==", "value": "x"}, {"path": "tool.name", "op": "==", "value": "pay"}]
    bare = {"turn": "a", "stop": None, "request": None}
    found, lacking = judge("no_call", {"tool": "*"}, [bare, {"call": "pay"}, {"call": "look"}], when=gate)
    assert (found, lacking) == (0, {"a field that its condition reads"})


def test_a_denied_condition_over_a_field_that_is_left_out_decides_nothing() -> None:
    gate = [{"not": {"path": "model", "op": "==", "value": "x"}}, {"path": "stop_reason", "op": "==", "value": "end"}]
    bare = {"turn": "a", "stop": None, "request": None}
    assert judge("max_turns", {"n": 0}, [bare], when=gate) == (0, {"a field that its condition reads"})


def test_a_gate_that_another_condition_closes_is_no_question() -> None:
    gate = [{"path": "model", "op": "==", "value": "x"}, {"path": "tool.name", "op": "==", "value": "pay"}]
    assert judge("no_call", {"tool": "*"}, [{"turn": "a", "request": None}, {"call": "look"}], when=gate) == (0, set())


def test_a_condition_that_asks_whether_a_field_exists_is_always_known() -> None:
    gate = {"path": "model", "op": "exists", "value": True}
    assert judge("max_turns", {"n": 0}, [{"turn": "a", "request": None}], when=gate) == (0, set())


@pytest.mark.parametrize("key", [("session", "labels.tenant"), ("labels.tenant",)])
def test_an_event_without_a_value_for_the_key_of_a_rule_is_unevaluable(key: tuple[str, ...]) -> None:
    assert judge("max_calls", {"n": 0}, [{"call": "x"}], key=key) == (0, {"a value for its key"})
    assert judge("max_calls", {"n": 0}, [{"call": "x", "labels": {"tenant": "a"}}], key=key) == (1, set())


def test_an_argument_that_an_attempt_does_not_have_is_no_lack() -> None:
    assert judge("max_calls", {"n": 0}, [{"call": "x", "args": {}}], key=("session", "args.account")) == (0, set())
