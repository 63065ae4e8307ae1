"""The guard itself: three-valued windows, repeats, ends that last, failures, and the async form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.guard.ended import EndedSessions
from stream_guard.guard.inline import Guard
from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Action, GateDecision, ToolCall, ToolResult, Turn
from stream_guard.judge.ports import ENDED_ROWS
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.storage.stores import CheckpointStore, MemoryStore
from stream_guard.testing import events, rule_spec
from tests.replaying import ReplayingGuard

REGISTRY = build_registry()
WINDOW = {"call_count_in_window_gt": {"value": 0, "windowSeconds": 60}}
STOP = {"tool_name_in": ["stop"]}


def policy(*rules: dict[str, Any], **more: Any) -> Policy:
    named = [{"id": f"r{number}", **rule} for number, rule in enumerate(rules)]
    return load_policy(json.dumps({"rules": named, **more}), REGISTRY, file="rules.json")


def call(tool: str = "t", at: float | None = 100.0, session: str = "s", **more: Any) -> ToolCall:
    return ToolCall(session_id=session, tool=tool, time=at, args=more.pop("args", {}), **more)


@pytest.mark.parametrize(
    ("when", "inline"),
    [
        (WINDOW, False),
        ({**WINDOW, "tool_name_in": ["t"]}, False),
        ({"any_of": [WINDOW, {"tool_name_in": ["t"]}]}, True),
        ({"not": {"not": WINDOW}}, False),
        ({"not": {"all_of": [WINDOW, {"tool_name_in": ["u"]}]}}, True),
        ({"not": {"call_count_in_window_gt": {"value": 5, "windowSeconds": 60}}}, False),
    ],
)
def test_a_window_is_unknown_inline_and_known_afterwards(when: dict[str, Any], inline: bool) -> None:
    decision = ReplayingGuard(policy({"when": when, "then": "terminate_session"})).check(call())
    assert (len(decision.findings), len(decision.followup)) == ((1, 0) if inline else (0, 1))
    assert (decision.action is Action.TERMINATE_SESSION, decision.session_ended) == (inline, inline)


def test_a_window_gates_inline_when_the_rule_says_so() -> None:
    guard = ReplayingGuard(policy({"when": WINDOW, "then": "block", "enforce_window": "inline"}))
    decision = guard.check(call())
    assert (decision.action, len(decision.findings), decision.followup) == (Action.BLOCK, 1, ())


def test_a_type_that_does_not_compare_is_counted_and_a_rule_that_fires_all_the_same_is_not() -> None:
    compared = {"arg_gt": {"path": "n", "value": 1}}
    guard = ReplayingGuard(policy({"when": compared, "then": "allow"}, {"when": {"not": compared}, "then": "allow"}))
    decision = guard.check(call(args={"n": "5"}))
    assert ([finding.rule_id for finding in decision.findings], guard.counts.type_mismatches) == (["r1"], 1)


def test_a_window_without_a_clock_is_counted_as_unevaluable() -> None:
    guard = ReplayingGuard(policy({"when": WINDOW, "then": "block"}))
    assert guard.check(call(at=None)).followup == ()
    assert guard.counts.unevaluable[0] == 1


def test_asked_again_about_a_refused_attempt_it_refuses_again() -> None:
    guard = ReplayingGuard(policy({"when": {"tool_name_in": ["t"]}, "then": "block"}))
    first = guard.check(call(event_id="e1", call_id="c1"))
    assert guard.check(call(event_id="e1", call_id="c1")) == first
    assert first.action is Action.BLOCK
    assert guard.check(call(event_id="e2", call_id="c1")).action is Action.BLOCK


def test_another_attempt_under_a_used_event_id_is_judged_as_what_it_is() -> None:
    guard = ReplayingGuard(policy({"when": {"arg_gt": {"path": "n", "value": 0}}, "then": "block"}))
    answers = [guard.check(call(event_id="e1", args={"n": value})).action for value in (0, 0, True, 1, 0)]
    assert answers == [Action.ALLOW, Action.ALLOW, Action.ALLOW, Action.BLOCK, Action.ALLOW]


def test_an_allowed_attempt_is_refused_when_asked_about_again_after_the_end() -> None:
    guard = ReplayingGuard(policy({"when": STOP, "then": "terminate_session"}))
    assert guard.check(call("t", event_id="e1")).action is Action.ALLOW
    guard.check(call("stop", event_id="e2"))
    assert guard.check(call("t", event_id="e1")).action is Action.TERMINATE_SESSION


def test_a_cooldown_keeps_findings_back_but_never_the_gate_open() -> None:
    guard = ReplayingGuard(policy({"when": {"tool_name_in": ["t"]}, "then": "block", "cooldown": "1h"}))
    answers = [guard.check(call(at=100.0 + number)) for number in range(3)]
    assert [answer.action for answer in answers] == [Action.BLOCK] * 3
    assert [len(answer.findings) for answer in answers] == [1, 0, 0]


def test_an_attempt_does_not_wait_for_late_events() -> None:
    loaded = load_policy(
        "sessions: {max_out_of_orderness: 1h}\nrules: [{id: r, kind: no_call, params: {tool: t}, then: block}]",
        REGISTRY,
    )
    assert ReplayingGuard(loaded).check(call()).action is Action.BLOCK


def test_a_deadline_that_passed_is_no_verdict_on_the_next_attempt() -> None:
    followup = {"trigger": [], "must": {"kind": "tool_call", "tool_name": "b"}, "within_seconds": 10}
    guard = ReplayingGuard(policy({"kind": "must_followup", "params": followup, "then": "block"}))
    [turn] = events([{"turn": "hello", "at": 100}])
    guard.observe(turn)
    decision = guard.check(call("c", at=150.0))
    assert (decision.action, [finding.at for finding in decision.followup]) == (Action.ALLOW, ["deadline"])


def test_a_blocked_confirmation_confirms_nothing() -> None:
    before = {"kind": "must_call_before", "params": {"first": "confirm", "second": "pay"}, "then": "block"}
    guard = ReplayingGuard(policy(before, {"kind": "no_call", "params": {"tool": "confirm"}, "then": "block"}))
    assert guard.check(call("confirm", call_id="c1")).action is Action.BLOCK
    assert guard.check(call("pay", at=101.0)).action is Action.BLOCK


@pytest.mark.parametrize("same_object", [True, False])
def test_a_call_that_is_asked_about_again_after_its_result_is_another_attempt(same_object: bool) -> None:
    guard = ReplayingGuard(policy({"kind": "max_calls", "params": {"tool": "t", "n": 1}, "then": "block"}))
    first = call(event_id="e1", call_id="c1")
    assert guard.check(first).action is Action.ALLOW
    assert guard.check(first if same_object else call(event_id="e1", call_id="c1")).action is Action.ALLOW
    guard.observe(ToolResult(session_id="s", event_id="e2", call_id="c1", time=101.0))
    assert guard.check(first if same_object else call(event_id="e1", call_id="c1")).action is Action.BLOCK


def test_telling_of_a_decision_once_more_changes_nothing() -> None:
    guard = ReplayingGuard(policy({"when": {"tool_name_in": ["t"]}, "then": "block"}))
    guard.check(call(event_id="e1"))
    guard.observe(GateDecision(session_id="s", event_id="e1/block", time=100.0, action="block", tool="t"))
    assert guard.counts.duplicate_events == 1


def test_an_ended_session_stays_ended_and_others_go_on() -> None:
    guard = ReplayingGuard(policy({"when": STOP, "then": "terminate_session", "reason": "enough"}))
    assert guard.check(call("stop")).session_ended
    later = guard.check(call("t", at=1e6))
    assert (later.action, later.reason, later.findings) == (
        Action.TERMINATE_SESSION,
        "the session was ended: enough",
        (),
    )
    assert guard.check(call("t", session="other")).action is Action.ALLOW


@pytest.mark.parametrize("is_async", [False, True])
def test_an_end_survives_a_restart_without_any_commit(tmp_path: Path, is_async: bool) -> None:
    rules = policy({"when": STOP, "then": "terminate_session"})
    store = CheckpointStore(tmp_path / "guard.db")
    guard = ReplayingGuard(rules, store=store)
    answer = asyncio.run(guard.acheck(call("stop"))) if is_async else guard.check(call("stop"))
    assert answer.session_ended
    store.close()  # as a kill would: what was not committed is gone
    reopened = CheckpointStore(tmp_path / "guard.db")
    again = ReplayingGuard(rules, store=reopened)
    assert again.check(call("t", at=101.0)).action is Action.TERMINATE_SESSION
    assert again.counts.sessions == 1, "the note of an end is no session"
    assert [finding.rule_id for finding in again.end_all()] == []
    reopened.close()


@pytest.mark.parametrize("kind", ["memory", "file", "file, opened again"])
def test_an_ended_session_is_refused_as_long_as_it_tries_and_for_a_time_after_that(tmp_path: Path, kind: str) -> None:
    rules = policy({"when": STOP, "then": "terminate_session"})
    now, store = [0.0], MemoryStore() if kind == "memory" else CheckpointStore(tmp_path / "guard.db")
    answers = []
    guard = Guard(rules, store=store, clock=lambda: now[0], keep_ended=1000.0)
    for at, tool in ((0.0, "stop"), (900.0, "t"), (1800.0, "t"), (2799.0, "t"), (3800.0, "t"), (3900.0, "t")):
        if kind == "file, opened again":
            store.close()
            store = CheckpointStore(tmp_path / "guard.db")
            guard = Guard(rules, store=store, clock=lambda: now[0], keep_ended=1000.0)
        now[0] = at
        answers.append(guard.check(call(tool, event_id=f"e{at}")).action)
    store.close()
    assert answers == [Action.TERMINATE_SESSION] * 4 + [Action.ALLOW] * 2


def test_ends_that_hold_no_longer_take_no_room(tmp_path: Path) -> None:
    for store in (MemoryStore(), CheckpointStore(tmp_path / "guard.db")):
        ended = EndedSessions(store, Counts(), keep=100.0)
        for number in range(1000):
            ended.end(f"s{number}", "why", float(number))
        assert len(ended) == len(list(store.deadlines())) == 100
        assert [ended.reason(name, 999.0) for name in ("s999", "s900", "s899", "s0")] == ["why", "why", None, None]
        store.close()


def test_an_end_of_before_ends_had_a_time_holds(tmp_path: Path) -> None:
    store = MemoryStore()
    store.put(f"{ENDED_ROWS}s", b"why", None)
    ended = EndedSessions(store, Counts(), most=2, keep=100.0)
    for number in range(5):
        ended.end(f"s{number}", "why", 1000.0 * number)
    assert ended.reason("s", 1e9) is not None


class CommitCounter(CheckpointStore):
    commits = 0

    def commit(self, meta: Mapping[str, bytes]) -> None:
        self.commits += 1
        super().commit(meta)


def test_events_that_came_together_are_one_commit_and_survive_a_restart(tmp_path: Path) -> None:
    rules = policy({"when": {"call_count_in_run_gt": {"value": 3}}, "then": "block"})
    store = CommitCounter(tmp_path / "guard.db")
    Guard(rules, store=store, clock=lambda: 100.0).receive([call(event_id=f"e{number}") for number in range(3)])
    store.close()
    assert store.commits == 1
    reopened = CheckpointStore(tmp_path / "guard.db")
    assert Guard(rules, store=reopened, clock=lambda: 101.0).check(call(event_id="e9")).action is Action.BLOCK
    reopened.close()


def test_counts_survive_a_restart_without_any_commit(tmp_path: Path) -> None:
    rules = policy({"when": {"call_count_in_run_gt": {"value": 1}}, "then": "block"})
    store = CheckpointStore(tmp_path / "guard.db")
    guard = ReplayingGuard(rules, store=store)
    guard.check(call())
    store.close()  # as a kill would
    reopened = CheckpointStore(tmp_path / "guard.db")
    assert ReplayingGuard(rules, store=reopened).check(call(at=101.0)).action is Action.BLOCK
    reopened.close()


def test_the_reason_of_the_oldest_end_is_forgotten_first_and_that_is_counted() -> None:
    store, counts = MemoryStore(), Counts()
    ended = EndedSessions(store, counts, most=2)
    for name in ("a", "b", "c"):
        ended.end(name, "why")
    assert [ended.reason(name) == "why" for name in ("a", "b", "c")] == [False, True, True]
    assert "too long ago" in (ended.reason("a") or "")
    assert counts.evictions["ended_sessions"] == 1
    assert len(EndedSessions(store, counts)) == 2


class Broken(sg.Rule[sg.Params, sg.NoState]):
    """It always raises."""

    kind = "broken"

    def on_tool_call(self, _call: sg.ToolCall, _state: sg.NoState) -> sg.Hit | None:
        raise RuntimeError("no")


@pytest.mark.parametrize(("on_error", "action", "opened"), [("open", Action.ALLOW, 2), ("closed", Action.BLOCK, 0)])
def test_every_time_a_gate_fails_open_is_counted(on_error: str, action: Action, opened: int) -> None:
    rule = rule_spec(Broken, {}, then=Action.BLOCK, on_error=on_error)
    guard = ReplayingGuard(Policy(rules=(rule,), version="v"))
    assert [guard.check(call(at=float(at))).action for at in range(2)] == [action, action]
    assert guard.counts.fail_open == opened


def test_many_threads_lose_no_attempt() -> None:
    rules = policy({"when": {"call_count_in_session_gt": {"value": 399}}, "then": "block"})
    guard = ReplayingGuard(rules)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: guard.check(call(event_id=f"e{number}")).action, range(400)))
    assert answers.count(Action.BLOCK) == 1


def test_runs_that_never_end_do_not_fill_the_memory() -> None:
    guard = ReplayingGuard(policy({"when": {"call_count_in_run_gt": {"value": 1}}, "then": "block"}))
    for number in range(300):
        guard.check(call(run_id=f"run-{number}" + "x" * 500, event_id=f"e{number}"))
    [state] = guard._judge.states_of("s")
    assert len(state.runs) == 128
    assert max(map(len, state.runs)) <= 64


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("announced", [{}, None, {"amount": 1}])
def test_a_call_that_was_announced_with_less_is_judged_by_what_it_asks(announced: Any, is_stored: bool) -> None:
    big = {"tool_name_in": ["pay"], "arg_gt": {"path": "amount", "value": 5}}
    rules = policy({"kind": "tool_guard", "params": {"when": big}, "then": "block"})
    guard = Guard(rules, store=MemoryStore() if is_stored else None)
    block = {"type": "tool_use", "id": "c1", "name": "pay", "input": announced}
    guard.observe(Turn(session_id="s", response={"content": [block], "stop_reason": "tool_use"}))
    decision = guard.check(ToolCall(session_id="s", call_id="c1", tool="pay", args={"amount": 10}))
    assert decision.action is Action.BLOCK
