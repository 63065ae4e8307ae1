"""Labels that rules set: later events carry them, other rules read them, and no source can write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.guard.inline import Guard
from stream_guard.judge.conditions import Condition
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding
from stream_guard.policy.convert import to_native
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.storage.stores import MemoryStore
from stream_guard.testing import events, find

REGISTRY = build_registry()
TAINTED: dict[str, Any] = {"path": "labels.tainted", "op": "exists"}
READS = {
    "id": "reads",
    "kind": "forbidden_text",
    "params": {"text": "strange", "where": "tool_result"},
    "mode": "shadow",
    "set_labels": {"tainted": "yes"},
}
SENDS = {"id": "sends", "kind": "no_call", "params": {"tool": "send"}, "when": TAINTED, "then": "block"}


def policy_of(*rules: dict[str, Any]) -> sg.Policy:
    return load_policy(json.dumps({"rules": rules}), REGISTRY, file="policy.json")


def hits(policy: sg.Policy, trace: list[dict[str, Any]]) -> list[tuple[int | str, str]]:
    return [(at, finding.rule_id) for at, finding in find(policy, trace)]


def problems(*rules: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(sg.PolicyError) as caught:
        policy_of(*rules)
    return [(problem.code, problem.message) for problem in caught.value.problems]


STRANGE: list[dict[str, Any]] = [
    {"call": "send"},
    {"result": "read", "output": "strange"},
    {"call": "look"},
    {"call": "send"},
]


@pytest.mark.parametrize("rules", [(READS, SENDS), (SENDS, READS)], ids=["set first", "read first"])
def test_a_label_is_read_at_later_events_wherever_the_rules_stand(rules: tuple[dict[str, Any], ...]) -> None:
    assert hits(policy_of(*rules), STRANGE) == [(1, "reads"), (3, "sends")]


@pytest.mark.parametrize("rules", [0, 1], ids=["set first", "read first"])
def test_no_rule_reads_a_label_at_the_event_that_sets_it(rules: int) -> None:
    both = [
        {"id": "first", "kind": "no_call", "params": {"tool": "send"}, "set_labels": {"sent": "yes"}},
        {
            "id": "again",
            "kind": "no_call",
            "params": {"tool": "send"},
            "when": {"path": "labels.sent", "op": "==", "value": "yes"},
        },
    ]
    found = hits(policy_of(*(both if rules == 0 else reversed(both))), [{"call": "send"}, {"call": "send"}])
    assert sorted(found) == [(0, "first"), (1, "again"), (1, "first")]


def test_a_turn_sets_a_label_for_its_own_calls() -> None:
    says = {"id": "says", "kind": "forbidden_text", "params": {"text": "secretly"}, "set_labels": {"tainted": "yes"}}
    assert hits(policy_of(says, SENDS), [{"turn": "I secretly send it.", "calls": ["send"]}]) == [
        (0, "says"),
        (0, "sends"),
    ]


def test_another_session_has_labels_of_its_own_and_one_that_was_idle_begins_without() -> None:
    trace = [
        {"result": "read", "output": "strange", "session": "a", "at": 0},
        {"call": "send", "session": "b", "at": 1},
        {"call": "send", "session": "a", "at": 4000},
    ]
    assert hits(policy_of(READS, SENDS), trace) == [(0, "reads")]


def test_the_last_value_counts() -> None:
    def stage(tool: str) -> dict[str, Any]:
        return {"id": tool, "kind": "no_call", "params": {"tool": tool}, "set_labels": {"stage": tool}}

    paid = SENDS | {"when": {"path": "labels.stage", "op": "==", "value": "pay"}}
    trace = [{"call": "pay"}, {"call": "send"}, {"call": "undo"}, {"call": "send"}]
    assert hits(policy_of(stage("pay"), stage("undo"), paid), trace) == [(0, "pay"), (1, "sends"), (2, "undo")]


def test_a_source_can_neither_set_nor_remove_a_label_of_rules() -> None:
    forged = [{"call": "send", "labels": {"tainted": "yes"}}]
    assert hits(policy_of(READS, SENDS), forged) == []
    clean = SENDS | {"when": {"path": "labels.tainted", "op": "==", "value": "yes"}}
    trace: list[dict[str, Any]] = [STRANGE[1], {"call": "send", "labels": {"tainted": "no", "env": "x"}}]
    _, (_, finding) = find(policy_of(READS, clean), trace)
    assert finding.labels == {"env": "x", "tainted": "yes"}


def test_kinds_read_labels_in_their_own_conditions() -> None:
    steps: list[dict[str, Any]] = [{"tool": "ask", "when": TAINTED}, {"tool": "send"}]
    sequence = {"id": "both", "kind": "no_sequence", "params": {"steps": steps}}
    trace = [{"call": "ask"}, {"call": "send"}, *STRANGE[1:2], {"call": "ask"}, {"call": "send"}]
    assert hits(policy_of(READS, sequence), trace) == [(2, "reads"), (4, "both")]


def test_hits_that_a_cooldown_holds_back_set_labels_and_deadlines_do() -> None:
    late = {
        "id": "late",
        "kind": "must_call_after",
        "params": {"first": "quote", "then": "confirm", "within_seconds": 10},
        "set_labels": {"tainted": "yes"},
    }
    trace = [{"call": "quote", "at": 0}, {"call": "send", "at": 5}, {"call": "send", "at": 11}]
    assert hits(policy_of(late, SENDS), trace) == [("deadline", "late"), (2, "sends")]
    found = find(policy_of(late), trace)
    assert [finding.labels for _, finding in found] == [{"tainted": "yes"}]


def test_rules_across_sessions_read_labels() -> None:
    across = SENDS | {"key": ["agent"], "kind": "max_calls", "params": {"tool": "send", "n": 1}}
    trace = [
        {**item, "session": session, "agent": "a"}
        for session in "xyz"
        for item in (STRANGE if session != "y" else [{"call": "send"}])
    ]
    found = [at for at, finding in find(policy_of(READS, across), trace) if finding.rule_id == "sends"]
    assert found == [8], "only the sends of sessions with the label count, and this is the second"


def test_the_gate_stops_what_the_stream_reports_and_a_restart_changes_nothing() -> None:
    policy = policy_of(READS, SENDS)
    batch = [finding.alert_id for finding in evaluate(events(STRANGE), policy)]
    guard = Guard(policy)
    actions = [
        guard.check(event).action.word if isinstance(event, sg.ToolCall) else guard.observe(event) and "found"
        for event in events(STRANGE)
    ]
    assert actions == ["allow", "found", "allow", "block"]
    store, found = MemoryStore(), list[Finding]()
    for event in events(STRANGE):
        counts = Counts()
        table = Judge(policy, mode="stream", store=store, counts=counts)
        found += table.feed(event).findings
        table.commit()
    assert [finding.alert_id for finding in found] == batch


def test_a_redelivered_event_is_known_although_it_was_shown_with_labels() -> None:
    trace = events(STRANGE[1:])
    counts = Counts()
    table = Judge(policy_of(READS, SENDS), mode="stream", store=MemoryStore(), counts=counts)
    found: list[Finding] = []
    for event in [*trace, events(STRANGE[1:])[-1]]:
        found += table.feed(event).findings
    assert counts.duplicate_events == 1
    assert trace[-1].labels == {}, "the event itself stays as it came"


def test_a_session_with_labels_is_hardly_larger() -> None:
    counts = Counts()
    judge = Judge(policy_of(READS, SENDS), counts=counts)
    sizes: list[int] = []
    for event in events([{"call": "look"}, *STRANGE * 50]):
        judge.feed(event)
        session = judge._kept.find(event.session_id)
        assert session is not None
        sizes.append(len(session.memory))
        judge.commit()
    assert max(sizes) == 1


def test_a_rule_may_wait_for_the_absence_of_its_own_label() -> None:
    once = {
        "id": "once",
        "kind": "no_call",
        "params": {"tool": "send"},
        "unless": {"path": "labels.told", "op": "exists"},
        "set_labels": {"told": "yes"},
    }
    assert hits(policy_of(once), [{"call": "send"}, {"call": "send"}]) == [(0, "once")]


def waits(rule_id: str, label: str, sets: str) -> dict[str, Any]:
    return {
        "id": rule_id,
        "kind": "no_call",
        "params": {"tool": "send"},
        "when": {"path": f"labels.{label}", "op": "exists"},
        "set_labels": {sets: "yes"},
    }


def test_rules_that_wait_for_each_other_are_refused() -> None:
    found = problems(waits("a", "one", "two"), waits("b", "two", "one"))
    assert [code for code, _ in found] == ["SG113", "SG113"]
    assert found[0][1] == '"when" is never true: labels.one is set by "b", only after it has been set'


def test_a_circle_that_another_rule_opens_is_fine() -> None:
    policy = policy_of(waits("a", "one", "two"), waits("b", "two", "one"), READS | {"set_labels": {"one": "x"}})
    trace = [STRANGE[1], {"call": "send"}, {"call": "send"}]
    assert hits(policy, trace) == [(0, "reads"), (1, "a"), (2, "a"), (2, "b")]


def test_a_value_that_no_rule_sets_is_refused() -> None:
    wrong = SENDS | {"when": {"path": "labels.tainted", "op": "==", "value": "true"}}
    assert problems(READS, wrong) == [
        ("SG113", '"when" is never true: labels.tainted is set by "reads", to "yes"'),
    ]
    ruled_out = policy_of(READS, SENDS | {"when": {"not": wrong["when"]}})
    assert hits(ruled_out, [{"call": "send"}]) == [(0, "sends")]


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"key": ["agent"]}, "SG117", 'the key leaves "session" out'),
        ({"set_labels": {"tenant": "x"}}, "SG122", "no rule sets the tenant"),
        ({"set_labels": {"a.b": "x"}}, "SG122", "not a usable label"),
        ({"set_labels": {"a": 5}}, "SG106", "5"),
        ({"set_labels": {f"l{number}": "x" for number in range(9)}}, "SG107", "8"),
    ],
)
def test_labels_that_cannot_be_set_are_refused(change: dict[str, Any], code: str, says: str) -> None:
    ((found, message),) = problems(READS | change)
    assert found == code, message
    assert says in message


def test_a_label_of_rules_is_no_key() -> None:
    ((code, message),) = problems(READS, SENDS | {"when": [], "key": ["session", "labels.tainted"]})
    assert code == "SG117"
    assert "`when`" in message


def test_conversion_and_version_know_labels() -> None:
    policy = policy_of(READS, SENDS)
    assert to_native(policy)["rules"][0]["set_labels"] == {"tainted": "yes"}
    assert policy.version != policy_of(READS | {"set_labels": {"tainted": "no"}}, SENDS).version
    assert policy.rules[1].when == Condition(TAINTED)
