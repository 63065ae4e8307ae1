"""Near misses: which event came closest, and what was lacking."""

from __future__ import annotations

from typing import Any

import pytest

import stream_guard as sg
from stream_guard.explaining.near_misses import NearMiss, NearMisses
from stream_guard.explaining.survey import survey_rule
from stream_guard.explaining.timeline import follow_session
from stream_guard.judge.rule import RuleType
from stream_guard.judge.spec import Policy
from stream_guard.registry import build_registry
from stream_guard.testing import events
from stream_guard.testing.running import one_rule_policy, rule_spec

KINDS: dict[str, RuleType] = dict(build_registry().kinds)


def nearest(kind: str, params: dict[str, Any], trace: list[dict[str, Any]], **engine: Any) -> NearMiss | None:
    policy = one_rule_policy(KINDS[kind], params, **engine)
    return follow_session(events(trace), policy, "s").rules[0].near_miss


def found(miss: NearMiss | None) -> NearMiss:
    assert miss is not None
    return miss


def calls(*amounts: float, tool: str = "pay") -> list[dict[str, Any]]:
    return [{"call": tool, "args": {"amount": amount}} for amount in amounts]


def over(value: float) -> dict[str, Any]:
    return {"path": "tool.args.amount", "op": ">", "value": value}


def test_the_condition_that_failed_is_named_with_the_value_and_the_gap() -> None:
    miss = found(nearest("no_call", {"tool": "pay"}, calls(10, 96, 50), when=over(100)))
    assert miss.lacks == ("tool.args.amount is 96; it must be > 100 (4 short)",)
    assert miss.event_id == "s-1"


def test_the_event_that_fails_fewer_conditions_is_nearer() -> None:
    gate = [over(100), {"path": "labels.tier", "op": "==", "value": "gold"}]
    trace = [
        {"call": "pay", "args": {"amount": 99}, "labels": {"tier": "tin"}},
        {"call": "pay", "args": {"amount": 1}, "labels": {"tier": "gold"}},
    ]
    assert found(nearest("no_call", {"tool": "pay"}, trace, when=gate)).event_id == "s-1"


def test_of_alternatives_the_one_that_lacks_least_is_told() -> None:
    gate = {
        "any_of": [
            [over(100), {"path": "agent", "op": "==", "value": "x"}],
            {"path": "agent", "op": "==", "value": "boss"},
        ]
    }
    miss = found(
        nearest("no_call", {"tool": "pay"}, [{"call": "pay", "args": {"amount": 5}, "agent": "bot"}], when=gate)
    )
    assert miss.lacks == ('agent is "bot"; it must be == "boss"',)


def test_an_exception_that_held_is_what_was_lacking() -> None:
    unless = {"path": "tool.args.dry_run", "op": "==", "value": True}
    trace = [{"call": "pay", "args": {"dry_run": True}}]
    miss = found(nearest("no_call", {"tool": "pay"}, trace, unless=unless))
    assert miss.lacks == ("tool.args.dry_run is true; it must be not == true",)
    negated = found(nearest("no_call", {"tool": "pay"}, trace, when={"not": unless}))
    assert negated.lacks == miss.lacks


def test_conditions_over_the_turn_and_the_message_show_what_was_said() -> None:
    gate = [
        {"path": "stop_reason", "op": "==", "value": "refusal"},
        {"path": "user.text", "op": "contains", "value": "urgent"},
    ]
    trace = [{"user": "no hurry"}, {"turn": "ok", "stop": "end_turn"}, {"call": "pay"}]
    miss = found(nearest("no_call", {"tool": "pay"}, trace, when=gate))
    assert miss.lacks == (
        'stop_reason is "end_turn"; it must be == "refusal"',
        'user.text is "no hurry"; it must be contains "urgent"',
    )


@pytest.mark.parametrize(
    ("kind", "params", "trace", "lacks"),
    [
        ("max_calls", {"tool": "pay", "n": 3}, calls(1, 2), "calls: 2 of 3"),
        ("max_turns", {"n": 8}, [{"turn": "a"}, {"turn": "b"}], "turns: 2 of 8"),
        ("max_text_length", {"words": 5}, [{"turn": "a b c"}, {"turn": "a"}], "3 words of 5"),
        (
            "max_total_tokens",
            {"n": 1000, "warn_at": 900},
            [{"turn": "a", "usage": {"input_tokens": 400, "output_tokens": 40}}],
            "440 tokens of 1,000",
        ),
        ("max_latency", {"max_ms": 500}, [{"turn": "a", "response": {"latency_ms": 480}}], "480 ms of 500"),
        (
            "must_call_before",
            {"first": "ask", "second": "pay", "within_seconds": 60},
            [{"call": "ask", "at": 0}, {"call": "pay", "at": 45}],
            "ask was 45 s old, and is good for 60 s",
        ),
        ("must_call_before", {"first": "ask", "second": "pay"}, [{"call": "ask"}, {"call": "pay"}], "ask came first"),
        (
            "tool_guard",
            {"when": {"tool_name_in": ["pay"], "arg_gt": {"path": "amount", "value": 100}}},
            calls(3, 96),
            "amount is 96, not over 100 (4 short)",
        ),
        (
            "tool_guard",
            {"when": {"call_count_in_run_gt": {"tool": "pay", "value": 2}, "arg_present": {"path": "memo"}}},
            calls(1, 1),
            "memo is missing; attempt 2 of 3 at pay so far",
        ),
        (
            "tool_guard",
            {"when": {"not": {"arg_in": {"path": "amount", "values": [3, 4]}}, "tool_name_regex": "^pay$"}},
            calls(3),
            "amount is 3",
        ),
    ],
)
def test_inside_the_gate_the_kind_says_what_was_lacking(
    kind: str, params: dict[str, Any], trace: list[dict[str, Any]], lacks: str
) -> None:
    miss = found(nearest(kind, params, trace))
    assert miss.lacks == (lacks,)
    assert 0.5 <= miss.share < 1


def test_a_count_that_came_closer_later_is_the_nearer_one() -> None:
    assert found(nearest("max_calls", {"tool": "pay", "n": 9}, calls(1, 2, 3))).event_id == "s-2"


def test_a_rule_that_fired_has_no_near_miss_and_one_that_saw_nothing_neither() -> None:
    assert nearest("no_call", {"tool": "pay"}, calls(1)) is None
    assert nearest("no_call", {"tool": "pay"}, [{"call": "look"}]) is None


def test_a_kind_that_fails_to_explain_itself_hides_nothing() -> None:
    def shortfall(_rule: sg.Rule[Any, Any], _event: sg.Event, _state: sg.State) -> None:
        raise ZeroDivisionError

    broken = type("Broken", (KINDS["max_calls"],), {"shortfall": shortfall})
    policy = one_rule_policy(broken, {"tool": "pay", "n": 3})
    miss = follow_session(events(calls(1)), policy, "s").rules[0].near_miss
    assert found(miss).lacks == ("calls: 1 of 3",)


def test_over_all_sessions_the_nearest_is_found_where_the_rule_did_not_fire() -> None:
    policy = one_rule_policy(KINDS["no_call"], {"tool": "pay"}, when=over(100))
    trace = [
        {**call, "session": session}
        for session, amounts in (("far", (1,)), ("near", (99,)), ("fired", (99.5, 200)))
        for call in calls(*amounts)
    ]
    survey = survey_rule(events(trace), policy, policy.rules[0], None)
    assert (survey.sessions, survey.fired, survey.findings) == (3, 1, 1)
    assert found(survey.near_miss).session_id == "near"
    assert survey.tools == {"pay": 4}


def test_labels_that_other_rules_set_are_there_when_one_rule_is_surveyed() -> None:
    setter = rule_spec(KINDS["no_call"], {"tool": "read_secret"}, rule_id="setter", set_labels={"tainted": "yes"})
    gate = [over(100), {"path": "labels.tainted", "op": "==", "value": "yes"}]
    waiting = rule_spec(KINDS["no_call"], {"tool": "pay"}, rule_id="waiting", when=gate)
    policy = Policy(rules=(setter, waiting), version="test")
    trace: list[dict[str, Any]] = [
        {"call": "read_secret", "session": "near"},
        {"call": "pay", "args": {"amount": 99}, "session": "near"},
        {"call": "pay", "args": {"amount": 200}, "session": "clean"},
        {"call": "read_secret", "session": "fired"},
        {"call": "pay", "args": {"amount": 200}, "session": "fired"},
    ]
    survey = survey_rule(events(trace), policy, waiting, None)
    assert (survey.fired, survey.findings, survey.judged) == (1, 1, 1)
    assert found(survey.near_miss).lacks == ("tool.args.amount is 99; it must be > 100 (1 short)",)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_explains_its_examples_in_a_short_line(kind: str) -> None:
    for example in KINDS[kind].examples:
        policy = one_rule_policy(KINDS[kind], example.params)
        account = follow_session(events(example.trace), policy, "s").rules[0]
        fired = account.findings > 0
        assert fired == bool(example.hits)
        if account.near_miss is not None:
            assert not fired
            assert all(0 < len(text) < 400 and text.isprintable() for text in account.near_miss.lacks)
            assert 0 <= account.near_miss.share <= 1


def test_nothing_is_known_of_a_rule_before_its_first_event() -> None:
    assert NearMisses(one_rule_policy(KINDS["max_turns"], {"n": 1})).nearest_of_all(0) is None
