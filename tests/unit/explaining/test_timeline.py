"""Timelines: the real engine, told entry by entry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
import pytest

import stream_guard as sg
from stream_guard.decoding.places import RecordPlaces
from stream_guard.explaining.states import describe_state
from stream_guard.explaining.timeline import SessionTimeline, TimelineEntry, follow_session
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.testing import events
from stream_guard.testing.running import one_rule_policy

REGISTRY = build_registry()
Trace: TypeAlias = list[dict[str, Any]]
TEXT = """
sessions: {idle: 1h}
rules:
  - {id: order, kind: must_call_before, params: {first: Read, second: Edit, same_arg: path}}
  - {id: few, kind: max_calls, params: {tool: Edit, n: 1}}
  - {id: close, kind: must_call, params: {tool: close}}
"""


def policy_of(text: str = TEXT) -> sg.Policy:
    return sg.parse_policy(text, REGISTRY)


def follow(trace: Iterable[Mapping[str, Any]], text: str = TEXT, **options: Any) -> SessionTimeline:
    return follow_session(events(trace), policy_of(text), "s", **options)


def changes_of(entries: Iterable[TimelineEntry], rule_id: str) -> list[tuple[str, str]]:
    return [(change.before, change.after) for entry in entries for change in entry.changes if change.rule_id == rule_id]


def test_each_event_that_rules_saw_is_a_step_in_order() -> None:
    trace: Trace = [
        {"user": "fix it"},
        {"turn": "reading", "calls": [{"tool": "Read", "args": {"path": "a"}, "id": "1"}]},
        {"call": "Read", "args": {"path": "a"}, "id": "1"},  # the block again: one attempt
        {"decision": "allow", "id": "1"},
        {"result": "Read", "id": "1", "output": "text"},
        {"end": "closed"},
    ]
    timeline = follow(trace)
    assert [entry.kind for entry in timeline.entries] == [
        "user_message",
        "turn",
        "tool_call",
        "decision",
        "tool_result",
        "session_end",
    ]
    assert [entry.number for entry in timeline.entries] == list(range(6))
    assert timeline.entries[2].what == 'call Read(path="a")'
    assert timeline.entries[4].what == 'result of Read, ok: "text"'
    assert [entry.index for entry in timeline.entries] == [None, 0, 0, 0, 0, 0]


def test_states_are_told_where_they_changed_and_each_begins_where_the_last_ended() -> None:
    trace = [{"call": "Edit", "args": {"path": p}} for p in "abc"] + [{"call": "Look"}]
    entries = follow(trace).entries
    assert changes_of(entries, "few") == [("nothing yet", "calls 1"), ("calls 1", "calls 2"), ("calls 2", "calls 3")]
    assert entries[3].changes == ()
    assert changes_of(entries, "close") == []


def test_findings_stand_at_the_step_that_decided_them() -> None:
    entries = follow([{"call": "Edit", "args": {"path": "a"}}, {"call": "Look"}, {"end": "closed"}]).entries
    assert [[finding.rule_id for finding in entry.findings] for entry in entries] == [["order"], [], ["close"]]
    assert entries[0].findings[0].evidence["value"] == "a"


@pytest.mark.parametrize(
    "gate", [None, {"path": "session.id", "op": "==", "value": "s"}, {"path": "session.turn", "op": ">", "value": 0}]
)
@pytest.mark.parametrize("kind", sorted(REGISTRY.kinds))
def test_a_timeline_finds_what_batch_finds_under_the_same_ids(kind: str, gate: dict[str, Any] | None) -> None:
    rule = REGISTRY.kinds[kind]
    for example in rule.examples:
        policy = one_rule_policy(rule, example.params, when=gate)
        found = evaluate(events(example.trace), policy)
        timeline = follow_session(events(example.trace), policy, "s")
        assert [finding.alert_id for finding in timeline.findings] == [finding.alert_id for finding in found]
        assert timeline.rules[0].findings == len(found)
        said = [timeline.rules[0].state, *(change.after for entry in timeline.entries for change in entry.changes)]
        assert [state for state in said if re.search(r"\d{13}|b'", state)] == [], "nobody can read a fingerprint"


class _Marked(sg.State):
    marks: list[int] = []
    by_mark: dict[int, int] = {}
    last: int = 0
    attempts: dict[int, str] = {}
    counts: list[int] = []


def test_fingerprints_in_a_state_are_counted_and_other_numbers_shown() -> None:
    state = _Marked([1 << 50, 1 << 51, 7], {1 << 52: 3}, 1 << 53, {0: "a", 1: "b"}, [1, 2])
    assert describe_state(state) == (
        "marks [3 fingerprints], by mark [1 fingerprint], last a fingerprint, "
        'attempts [#1: "a", #2: "b"], counts [1, 2]'
    )


def test_a_deadline_and_the_end_of_a_part_are_steps_of_their_own() -> None:
    text = """
rules:
  - id: soon
    kind: must_followup
    params:
      trigger: [{path: response.content, op: contains, value: ask}]
      must: {kind: tool_call, tool_name: done}
      within_seconds: 60
  - {id: part, kind: must_call, params: {tool: close}, scope: part}
"""
    trace = [
        {"user": "first", "at": 0},
        {"turn": "hm", "calls": ["ask"], "at": 1},
        {"user": "second", "at": 600},
        {"turn": "ok", "calls": ["close"], "at": 601},
    ]
    entries = follow(trace, text).entries
    assert {entry.kind: [finding.rule_id for finding in entry.findings] for entry in entries if entry.findings} == {
        "deadline": ["soon"],
        "part_end": ["part"],
    }


def test_other_sessions_count_for_rules_across_sessions_and_are_not_told() -> None:
    text = "rules:\n  - {id: team, kind: max_calls, params: {tool: mail, n: 1}, key: [labels.team]}\n"
    trace = [
        {"call": "mail", "session": "other", "labels": {"team": "a"}},
        {"call": "mail", "session": "mine", "labels": {"team": "a"}},
    ]
    timeline = follow_session(events(trace), policy_of(text), "mine")
    assert [entry.what for entry in timeline.entries if entry.kind == "tool_call"] == ["call mail()"]
    assert changes_of(timeline.entries, "team") == [("calls 1", "calls 2")]
    assert [finding.rule_id for finding in timeline.findings] == ["team"]


def test_a_rule_with_a_key_says_which_of_its_states_changed() -> None:
    text = "rules:\n  - {id: each, kind: max_calls, params: {n: 5}, key: [session, args.account]}\n"
    trace = [{"call": "pay", "args": {"account": name}} for name in ("x", "y", "x")]
    entries = follow(trace, text).entries
    assert [(change.key, change.after) for entry in entries for change in entry.changes] == [
        ("x", "calls 1"),
        ("y", "calls 1"),
        ("x", "calls 2"),
    ]


def test_what_agents_wrote_is_short_on_one_line_and_without_secrets() -> None:
    secret = "sk-ant-api03-" + "Ab3" * 31
    trace: Trace = [
        {"user": "\x1b[2J " + secret},
        {"call": "Edit", "args": {"path": "a\u202eb", "token": secret, "text": "x" * 5000}},
    ]
    written = msgspec.json.encode(follow(trace)).decode()
    assert secret not in written
    assert all(entry["what"].isprintable() for entry in msgspec.json.decode(written)["entries"])
    assert len(written) < 6000


def test_a_rule_that_lacks_something_says_what() -> None:
    timeline = follow([{"call": "Edit", "args": {"path": "a"}, "captured": False}])
    assert timeline.rules[0].lacking == {"content": 1}
    assert timeline.rules[0].asked == 0


def test_steps_without_findings_beyond_the_limit_are_counted_only() -> None:
    trace: Trace = [{"call": "Look"}] * 10 + [{"call": "Edit", "args": {"path": "a"}}, {"end": "closed"}]
    timeline = follow(trace, most_entries=3)
    assert [entry.number for entry in timeline.entries] == [0, 1, 2, 10, 11]
    assert timeline.left_out == 7
    assert [finding.rule_id for finding in timeline.findings] == ["order", "close"]


def test_steps_name_the_file_and_line_that_the_caller_knows() -> None:
    places = RecordPlaces()
    places.note(sg.Record(b"", origin="trace.jsonl", line=7), sg.ToolCall(session_id="s", event_id="s-1", tool="Look"))
    entries = follow([{"call": "Look"}, {"call": "Look"}], places=places).entries
    assert [(entry.file, entry.line) for entry in entries[:2]] == [("", 0), ("trace.jsonl", 7)]


def test_without_an_end_obligations_stay_open() -> None:
    timeline = follow([{"call": "Look"}], end=False)
    assert timeline.findings == []
    assert [entry.kind for entry in timeline.entries] == ["tool_call"]
