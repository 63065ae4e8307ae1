"""What rules may rely on: one attempt counted once, results paired, turns numbered, parts split."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

import stream_guard as sg
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding, Header
from stream_guard.judge.rule import Mode
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.testing import events, one_rule_policy

REGISTRY = build_registry()


def numbered(line: str) -> str:
    """A line with the attempts numbered in the order in which it names them; -1 stays -1."""
    names: dict[str, int] = {}
    return re.sub(r"#(\d+)", lambda found: f"#{names.setdefault(found[1], len(names))}", line)


class Log(sg.State):
    """What the recorder saw."""

    lines: list[str] = []


class Recorder(sg.Rule[sg.Params, Log]):
    """Everything is recorded, so that tests can read it."""

    kind = "recorder"

    def on_user_message(self, message: sg.UserMessage, state: Log) -> None:
        state.lines.append(f"user {message.index}")

    def on_turn(self, turn: sg.Turn, state: Log) -> None:
        state.lines.append(f"turn {turn.index} {turn.text!r} {'+'.join(turn.tools)}".rstrip())

    def on_tool_call(self, call: sg.ToolCall, state: Log) -> None:
        state.lines.append(f"call {call.tool} #{call.attempt} @{call.index}")

    def on_decision(self, decision: sg.GateDecision, state: Log) -> None:
        state.lines.append(f"decision {decision.action} {decision.tool} #{decision.attempt}")

    def on_tool_result(self, result: sg.ToolResult, state: Log) -> None:
        state.lines.append(f"result {result.tool} {result.status} #{result.attempt} @{result.index}")

    def on_session_end(self, end: sg.SessionEnd, state: Log) -> sg.Hit:
        return sg.Hit(" | ".join(state.lines))


def seen(trace: Sequence[Any], counts: Counts | None = None, **engine: Any) -> list[str]:
    """What the recorder saw, one list for each of its states."""
    table = Judge(one_rule_policy(Recorder, {}, **engine), counts=counts)
    found: list[Finding] = []
    for event in events(trace):
        found += table.feed(event).findings
    found += table.end()
    return [numbered(finding.detail) for finding in found]


def test_a_tool_use_block_is_an_attempt_of_its_turn() -> None:
    assert seen([{"turn": "ok", "calls": ["a", "b"]}]) == ["turn 0 'ok' a+b | call a #0 @0 | call b #1 @0"]


def test_the_event_of_a_call_that_a_block_announced_is_the_same_attempt() -> None:
    counts = Counts()
    block = {"tool": "pay", "id": "c1", "args": {"n": 1}}
    trace = [{"turn": None, "calls": [block]}, {"call": "pay", "id": "c1", "args": {"n": 1}}]
    assert seen(trace, counts) == ["turn 0 '' pay | call pay #0 @0"]
    assert counts.merged_calls == 1


def test_the_block_of_a_call_that_was_checked_first_is_the_same_attempt() -> None:
    block = {"tool": "pay", "id": "c1", "args": {"n": 1}}
    trace = [{"call": "pay", "id": "c1", "args": {"n": 1}}, {"turn": None, "calls": [block]}]
    assert seen(trace) == ["call pay #0 @-1 | turn 0 '' pay"]


def test_a_block_and_its_call_are_one_attempt_when_only_one_of_them_has_an_id() -> None:
    block, call = {"tool": "pay", "args": {"n": 1}}, {"call": "pay", "args": {"n": 1}}
    named_block, named_call = block | {"id": "c1"}, call | {"id": "c1"}
    result = {"result": "pay", "id": "c1"}
    announced = ["turn 0 '' pay | call pay #0 @0 | result pay ok #0 @0"]
    assert seen([{"turn": None, "calls": [block]}, named_call, result]) == announced
    assert seen([{"turn": None, "calls": [named_block]}, call, result]) == announced
    reported = ["call pay #0 @-1 | turn 0 '' pay | result pay ok #0 @-1"]
    assert seen([named_call, {"turn": None, "calls": [block]}, result]) == reported
    assert seen([call, {"turn": None, "calls": [named_block]}, result]) == reported


def test_a_call_without_an_id_is_not_an_old_attempt_that_never_ran() -> None:
    block = {"tool": "pay", "id": "c1", "args": {"n": 1}}
    later = [{"turn": "no"}, {"turn": "still no"}, {"call": "pay", "args": {"n": 1}}]
    (events,) = seen([{"turn": None, "calls": [block]}, *later])
    assert events.endswith("call pay #1 @2")


def test_other_arguments_under_the_same_id_are_another_attempt() -> None:
    block = {"tool": "pay", "id": "c1", "args": {"n": 1}}
    trace = [{"turn": None, "calls": [block]}, {"call": "pay", "id": "c1", "args": {"n": 9}}]
    assert seen(trace) == ["turn 0 '' pay | call pay #0 @0 | call pay #1 @0"]


BARE = {"call": "pay", "id": "c1"}
BLOCK = {"turn": None, "calls": [{"tool": "pay", "id": "c1", "args": {"amount": 7}}]}
FULL = {"call": "pay", "id": "c1", "args": {"amount": 7}}
OTHER = {"call": "pay", "id": "c1", "args": {"amount": 8}}
COUNT = "{id: count, kind: max_calls, params: {tool: pay, n: 1}}"
LARGE = '{id: large, kind: no_call, params: {tool: pay}, when: {path: tool.args.amount, op: ">", value: 5}}'


def found(trace: Sequence[Any], *rules: str, mode: Mode = "stream", restart: bool = False) -> list[str]:
    policy = load_policy("rules:\n" + "".join(f"  - {rule}\n" for rule in rules), REGISTRY, file="p.yaml")
    table, out = Judge(policy, mode=mode), list[Finding]()
    for told in events(trace):
        bare = isinstance(told, sg.ToolCall) and not told.args
        out += table.feed(replace(told, args=None) if bare else told).findings
        if restart:
            table.use(policy)
    return [finding.rule_id for finding in out]


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("trace", [[BLOCK, BARE], [FULL, BARE], [FULL, BARE, BLOCK], [BLOCK, BARE, FULL]])
def test_a_sighting_without_arguments_is_the_attempt_of_its_id(trace: list[Any], restart: bool) -> None:
    assert found(trace, COUNT, LARGE, restart=restart) == ["large"]


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("trace", [[BARE, BLOCK], [BARE, FULL], [BARE, BARE, BLOCK, FULL]])
def test_arguments_that_come_later_are_judged_where_a_rule_reads_them(trace: list[Any], restart: bool) -> None:
    assert found(trace, COUNT, restart=restart) == []
    assert "large" in found(trace, COUNT, LARGE, restart=restart)


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize(
    "trace",
    [
        [BLOCK, {"call": "mail", "id": "c1"}, BARE | {"id": "c2"}],
        [BARE, BLOCK, OTHER],
        [BLOCK, BARE, OTHER],
        [BLOCK, {"result": "pay", "id": "c1"}, BARE],
    ],
)
def test_what_contradicts_is_another_attempt(trace: list[Any], restart: bool) -> None:
    assert found(trace, COUNT, restart=restart) == ["count"]


def test_a_gate_that_is_asked_without_arguments_does_not_take_those_of_the_block() -> None:
    assert found([BLOCK, BARE], COUNT, mode="inline") == ["count"]


def test_true_is_not_1_in_the_arguments_of_an_attempt() -> None:
    trace = [{"call": "pay", "id": "c1", "args": {"n": 1}}, {"call": "pay", "id": "c1", "args": {"n": True}}]
    assert seen(trace) == ["call pay #0 @-1 | call pay #1 @-1"]


def test_an_id_that_is_used_again_after_its_result_is_another_attempt() -> None:
    once = [{"call": "pay", "id": "c1"}, {"result": "pay", "id": "c1"}]
    assert seen(once + once) == [
        "call pay #0 @-1 | result pay ok #0 @-1 | call pay #1 @-1 | result pay ok #1 @-1",
    ]


def test_a_repeated_call_event_with_an_open_id_counts_once() -> None:
    assert seen([{"call": "pay", "id": "c1"}, {"call": "pay", "id": "c1"}]) == ["call pay #0 @-1"]


def test_calls_without_ids_are_each_an_attempt() -> None:
    assert seen([{"call": "pay"}, {"call": "pay"}]) == ["call pay #0 @-1 | call pay #1 @-1"]


def test_a_block_without_id_meets_one_event_without_id() -> None:
    trace = [{"turn": None, "calls": ["pay"]}, {"call": "pay"}, {"call": "pay"}]
    assert seen(trace) == ["turn 0 '' pay | call pay #0 @0 | call pay #1 @0"]


def test_two_blocks_with_one_id_are_two_attempts() -> None:
    blocks = [{"tool": "pay", "id": "c1"}, {"tool": "pay", "id": "c1"}]
    assert seen([{"turn": None, "calls": blocks}]) == ["turn 0 '' pay+pay | call pay #0 @0 | call pay #1 @0"]


def test_a_result_goes_to_the_latest_open_call_of_its_id() -> None:
    trace = [
        {"call": "pay", "id": "c1", "args": {"n": 1}},
        {"call": "pay", "id": "c1", "args": {"n": 2}},
        {"result": "pay", "id": "c1"},
        {"result": "pay", "id": "c1", "status": "error"},
    ]
    assert seen(trace)[0].endswith("result pay ok #1 @-1 | result pay error #0 @-1")


def test_a_result_without_id_goes_to_the_latest_open_call_of_its_tool() -> None:
    trace = [{"call": "a"}, {"call": "b"}, {"result": "a"}]
    assert seen(trace)[0].endswith("result a ok #0 @-1")


def test_a_result_without_a_call_is_seen_and_counted() -> None:
    counts = Counts()
    assert seen([{"result": "a", "id": "zz"}], counts) == ["result a ok #-1 @-1"]
    assert counts.unpaired_results == 1


def test_a_result_carries_the_turn_and_tool_of_its_call() -> None:
    trace = [{"turn": None, "calls": [{"tool": "a", "id": "c1"}]}, {"turn": "x"}, {"result": "", "id": "c1"}]
    assert seen(trace)[0].endswith("result a ok #0 @0")


def test_a_decision_finds_its_attempt() -> None:
    trace = [{"call": "pay", "id": "c1"}, {"decision": "block", "id": "c1"}]
    assert seen(trace) == ["call pay #0 @-1 | decision block pay #0"]


def test_open_calls_are_bounded() -> None:
    counts = Counts()
    seen([{"call": "a", "id": f"c{n}"} for n in range(300)], counts)
    assert counts.evictions["open_calls"] == 300 - 256


def test_a_duplicate_event_is_dropped() -> None:
    counts = Counts()
    assert seen([{"call": "a", "event_id": "e"}, {"call": "a", "event_id": "e"}], counts) == ["call a #0 @-1"]
    assert counts.duplicate_events == 1


def test_equal_events_without_ids_are_not_duplicates() -> None:
    same = {"call": "a", "event_id": ""}
    assert seen([same, same]) == ["call a #0 @-1 | call a #1 @-1"]


def test_text_is_the_text_blocks_joined_by_a_newline() -> None:
    content = [{"type": "text", "text": "one"}, {"type": "thinking", "text": "no"}, {"type": "text", "text": "two"}]
    assert seen([{"turn": None, "response": {"content": content}}]) == ["turn 0 'one\\ntwo'"]


@pytest.mark.parametrize("content", [None, 5, {"type": "text"}, [None, 5, "x"], [{"type": "text", "text": 5}]])
def test_odd_content_is_no_content(content: Any) -> None:
    assert seen([{"turn": None, "response": {"content": content}}]) == ["turn 0 ''"]


TOOL_ROUND = {"messages": [{"role": "user", "content": "hi"}, {"role": "tool", "content": "ok"}]}
ANTHROPIC_ROUND = {
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "tool_result", "content": "ok"}]},
    ]
}


def parts(trace: Sequence[Any]) -> list[str]:
    return seen(trace, scope="part")


def test_a_user_message_begins_a_part_and_its_turn_does_not_begin_another() -> None:
    trace = [{"user": "a"}, {"turn": "1"}, {"user": "b"}, {"turn": "2"}]
    assert parts(trace) == ["user -1 | turn 0 '1'", "user 0 | turn 1 '2'"]


@pytest.mark.parametrize("asked", [TOOL_ROUND, ANTHROPIC_ROUND])
def test_a_tool_round_trip_stays_in_its_part(asked: Any) -> None:
    trace = [{"turn": "1", "stop": "tool_use"}, {"turn": "2", "request": asked}]
    assert parts(trace) == ["turn 0 '1' | turn 1 '2'"]


@pytest.mark.parametrize("stop", ["tool_use", "tool_calls"])
def test_a_turn_that_waits_for_a_tool_is_not_the_end_of_a_part(stop: str) -> None:
    assert len(parts([{"turn": "1", "stop": stop}, {"turn": "2", "request": TOOL_ROUND}])) == 1


def test_after_an_answer_the_next_request_begins_a_part() -> None:
    trace = [{"turn": "1", "request": TOOL_ROUND}, {"turn": "2", "request": TOOL_ROUND}]
    assert parts(trace) == ["turn 0 '1'", "turn 1 '2'"]


def test_a_turn_without_a_request_begins_nothing() -> None:
    assert parts([{"turn": "1", "request": None}, {"turn": "2", "request": None}]) == ["turn 0 '1' | turn 1 '2'"]


def test_the_name_of_a_part_wins_over_everything() -> None:
    trace = [{"turn": "1", "part": "p"}, {"turn": "2", "part": "p"}, {"turn": "3", "part": "q"}]
    assert parts(trace) == ["turn 0 '1' | turn 1 '2'", "turn 2 '3'"]


def test_a_call_that_a_turn_announces_has_everything_else_from_the_turn() -> None:
    given: dict[str, Any] = {
        "session_id": "s",
        "event_id": "e",
        "time": 5.0,
        "trace_id": "t",
        "run_id": "r",
        "agent": "a@1",
        "agent_path": ("root",),
        "counts_as": "b",
        "labels": {"env": "test"},
        "part": "p",
        "captured": False,
    }
    assert given.keys() | {"index"} == set(Header.__struct_fields__)
    content = [{"type": "tool_use", "id": "c", "name": "look", "input": "{not json"}]
    kept: list[sg.ToolCall] = []

    class Keeper(sg.Rule[sg.Params, sg.NoState]):
        """Keeps the calls that it sees."""

        kind = "keeper"

        def on_tool_call(self, call: sg.ToolCall, state: sg.NoState) -> None:
            kept.append(call)

    Judge(one_rule_policy(Keeper, {})).feed(sg.Turn(response={"content": content}, **given))
    (call,) = kept
    assert {field: getattr(call, field) for field in given} == given | {"event_id": "e/0"}
    assert (call.tool, call.call_id, call.args, call.parse_error, call.index) == ("look", "c", "{not json", True, 0)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    ("key", "one", "other", "counted"),
    [
        ("[session, run]", {"run_id": "A"}, {"run_id": "B"}, 2),
        ("[session, agent]", {"agent": "a"}, {"agent": "b"}, 2),
        ("[session, agent]", {"agent": "a"}, {}, 1),
        ("[session]", {"agent": "a"}, {"agent": "b"}, 1),
    ],
)
def test_one_id_of_two_callers_is_two_attempts_where_a_key_tells_them_apart(
    key: str, one: dict[str, Any], other: dict[str, Any], counted: int, restart: bool
) -> None:
    rule = f"{{id: r, kind: no_call, params: {{tool: pay}}, key: {key}}}"
    policy = load_policy(f"rules: [{rule}]", REGISTRY, file="p.yaml")
    table, out = Judge(policy, mode="stream"), list[Finding]()
    for number, caller in enumerate((one, other)):
        told = sg.ToolCall(session_id="s", event_id=f"{number}", tool="pay", call_id="call_1", args={}, **caller)
        out += table.feed(told).findings
        if restart:
            table.use(policy)
    assert len(out) == counted
