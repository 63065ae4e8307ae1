"""What the engine adds to every kind: gates, keys, cooldowns, `for`, blindness and isolation of errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import stream_guard as sg
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.limits import Limits
from stream_guard.judge.model import Finding
from stream_guard.judge.spec import Policy
from stream_guard.running.batch import evaluate
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore
from stream_guard.testing import events, find, one_rule_policy, rule_spec, run_rule


class Calls(sg.State):
    """How many calls came."""

    count: int = 0


class EveryCall(sg.Rule[sg.Params, Calls]):
    """Every call is counted and reported, and the total at the end."""

    kind = "every_call"

    def on_tool_call(self, call: sg.ToolCall, state: Calls) -> sg.Hit | None:
        state.count += 1
        return sg.Hit(f"{call.tool} {state.count}") if call.tool != "quiet" else None

    def on_ungated(self, event: sg.Event, state: Calls) -> None:
        if isinstance(event, sg.ToolCall) and event.tool == "reset":
            state.count = 0

    def on_session_end(self, end: sg.SessionEnd, state: Calls) -> sg.Hit:
        return sg.Hit(f"total {state.count}")


class NeedsText(sg.Rule[sg.Params, sg.NoState]):
    """A response says something."""

    kind = "needs_text"

    def needs(self) -> frozenset[sg.Need]:
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, state: sg.NoState) -> sg.Hit | None:
        return None if turn.text else sg.Hit("silent")

    def on_session_end(self, end: sg.SessionEnd, state: sg.NoState) -> sg.Hit:
        return sg.Hit("end")


class Fragile(sg.Rule[sg.Params, Calls]):
    """A call of `bad` breaks the rule half-way."""

    kind = "fragile"

    def on_tool_call(self, call: sg.ToolCall, state: Calls) -> sg.Hit | None:
        state.count += 1
        if call.tool == "bad":
            raise RuntimeError("token sk-secret")
        return sg.Hit(f"{call.tool} {state.count}")


class Doubtful(sg.Rule[sg.Params, Calls]):
    """Whether it is due, or rests on what it remembers, breaks the rule once a call has come."""

    kind = "doubtful"

    def on_tool_call(self, call: sg.ToolCall, state: Calls) -> None:
        state.count += 1

    def needs(self) -> frozenset[sg.Need]:
        return frozenset(("clock",))

    def deadline(self, state: Calls) -> float | None:
        return 1 / 0 if state.count else None

    def rests_on_memory(self, call: sg.ToolCall) -> bool:
        raise KeyError(call.tool)


def said(trace: Sequence[Any], **engine: Any) -> list[str]:
    return [detail for _, detail in run_rule(EveryCall, {}, trace, **engine)]


GATE = [{"path": "request.params.amount", "op": ">", "value": 500}]


def ask(amount: int, *tools: str) -> dict[str, Any]:
    return {"turn": None, "calls": list(tools), "request": {"params": {"amount": amount}}}


def test_a_gate_over_the_turn_decides_for_the_calls_in_it() -> None:
    assert said([ask(1, "a"), ask(900, "b"), ask(2, "c")], when=GATE) == ["b 1", "total 1"]


def test_a_gate_over_the_turn_holds_for_calls_that_come_as_events_of_their_own() -> None:
    assert said([ask(900), {"call": "a"}, ask(1), {"call": "b"}], when=GATE) == ["a 1", "total 1"]


def test_an_event_outside_the_gate_may_still_satisfy() -> None:
    assert said([ask(900, "a"), ask(1, "reset"), ask(900, "b")], when=GATE) == ["a 1", "b 1", "total 1"]


def test_unless_closes_the_gate() -> None:
    unless = {"path": "tool.name", "op": "==", "value": "a"}
    assert said([{"call": "a"}, {"call": "b"}], unless=unless) == ["b 1", "total 1"]


def test_a_gate_over_the_users_words_holds_until_the_next_ones() -> None:
    when = {"path": "user.text", "op": "contains", "value": "please"}
    trace = [
        {"call": "a"},
        {"user": "please"},
        {"call": "b"},
        {"turn": "x"},
        {"call": "c"},
        {"user": "no"},
        {"call": "d"},
    ]
    assert said(trace, when=when) == ["b 1", "c 2", "total 2"]


def test_an_end_is_judged_only_where_the_gate_opened() -> None:
    assert said([ask(1, "a")], when=GATE) == []


def test_a_gate_over_turns_in_a_session_without_turns_is_unevaluable() -> None:
    counts = Counts()
    run_rule(EveryCall, {}, [{"call": "a"}], when=GATE, counts=counts)
    assert counts.unevaluable[0] == 1


def test_what_a_gate_remembers_survives_a_restart() -> None:
    policy, store, found = one_rule_policy(EveryCall, {}, when=GATE), MemoryStore(), list[Finding]()
    for event in events([ask(900), {"call": "a"}]):
        counts = Counts()
        table = Judge(policy, mode="stream", store=store, counts=counts)
        found += table.feed(event).findings
        table.commit()
    assert [finding.detail for finding in found] == ["a 1"]


def test_a_key_keeps_one_state_for_each_value() -> None:
    trace = [{"call": "a", "args": {"account": name}} for name in ("x", "y", "x")]
    assert said([*trace, {"call": "a"}], key=("session", "args.account")) == ["a 1", "a 1", "a 2", "total 2", "total 1"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_result_reaches_the_state_of_its_calls_key(restart: bool) -> None:
    class Results(EveryCall):
        """Every result is told apart by the account of its call."""

        def on_tool_result(self, result: sg.ToolResult, state: Calls) -> sg.Hit:
            return sg.Hit(f"{result.tool} after {state.count}")

    policy, store, found = one_rule_policy(Results, {}, key=("session", "args.to.0")), MemoryStore(), list[Finding]()
    trace = [{"call": "quiet", "id": "1", "args": {"to": ["x"]}}, {"call": "quiet", "id": "2", "args": {"to": ["x"]}}]
    counts = Counts()
    table = Judge(policy, mode="stream", store=store, counts=counts)
    for event in events([*trace, {"result": "quiet", "id": "1"}]):
        if restart:
            table.commit()
            table = Judge(policy, mode="stream", store=store, counts=counts)
        found += table.feed(event).findings
    assert [finding.detail for finding in found] == ["quiet after 2"]


def test_scope_run_keeps_one_state_for_each_run() -> None:
    assert said([{"call": "a", "run": run} for run in ("r1", "r2", "r1")], scope="run")[:3] == ["a 1", "a 1", "a 2"]


def test_a_key_without_session_spans_sessions() -> None:
    trace = [{"call": "a", "agent": "x", "session": "s1"}, {"call": "b", "agent": "x", "session": "s2"}]
    placed = find(one_rule_policy(EveryCall, {}, key=("agent",)), trace)
    assert [(finding.session_id, finding.part, finding.detail) for _, finding in placed] == [
        ("s1", "x", "a 1"),
        ("s2", "x", "b 2"),
        ("s2", "x", "total 2"),
    ]


def test_states_are_bounded_by_forgetting_the_oldest_keyed_one() -> None:
    policy, counts = one_rule_policy(EveryCall, {}, key=("session", "args.n")), Counts()
    table = Judge(policy, Limits(max_states=2), mode="stream", counts=counts)
    found: list[Finding] = []
    for event in events([{"call": "a", "args": {"n": n}} for n in (1, 2, 3, 1)]):
        found += table.feed(event).findings
    # What it knew of the first key is gone, so its next hit there is none; the end is judged of what is left.
    assert [finding.detail for finding in found] == ["a 1"] * 3
    assert counts.evictions["states"] == 2
    assert sum(counts.unevaluable.values()) == 1


def test_a_cooldown_holds_findings_back_and_counts_them() -> None:
    trace = [{"call": "a", "at": at} for at in (0, 10, 59, 60, 61)]
    placed = find(one_rule_policy(EveryCall, {}, cooldown=60.0), trace)
    assert [(finding.time, finding.suppressed) for at, finding in placed if at != "end"] == [(0, 0), (60, 2)]


def test_for_asks_for_hits_without_a_break() -> None:
    hits = [{"call": "a", "at": at} for at in (0, 20, 30, 31)]
    assert said(hits, hold=30.0)[:-1] == ["a 3", "a 4"]
    broken = [{"call": "a", "at": 0}, {"call": "quiet", "at": 20}, {"call": "a", "at": 30}, {"call": "a", "at": 59}]
    assert said(broken, hold=30.0)[:-1] == []


def test_content_that_was_not_captured_is_unevaluable_never_a_pass() -> None:
    counts = Counts()
    assert run_rule(NeedsText, {}, [{"turn": None, "captured": False}], counts=counts) == []
    assert counts.unevaluable[0] == 2  # the turn, and the end that cannot be judged without it


def test_a_rule_that_raises_skips_the_event_and_says_so_once() -> None:
    counts = Counts()
    trace = [{"call": name} for name in ("a", "bad", "b", "bad", "c")]
    placed = find(one_rule_policy(Fragile, {}), trace, counts=counts)
    assert [finding.kind for _, finding in placed] == ["fragile", "rule_error", "fragile", "fragile"]
    assert counts.rule_errors[0] == 2
    assert "RuntimeError" in placed[1][1].detail


def test_a_rule_whose_deadline_raises_ends_no_run_and_no_restart() -> None:
    store, counts = MemoryStore(), Counts()
    policy = one_rule_policy(Doubtful, {})
    kinds = []
    for number in range(3):
        judge = Judge(policy, mode="stream", store=store, counts=counts)
        found = judge.feed(sg.ToolCall(session_id="s", event_id=f"e{number}", time=float(number), tool="a")).findings
        kinds.append([finding.kind for finding in found])
        judge.commit()
    assert kinds == [["rule_error"]] * 3  # each judge tells of it once
    assert counts.rule_errors[0] == 5  # at three events, and when the state was read again


@pytest.mark.parametrize("key", [("session",), ("session", "tool")])
def test_a_rule_that_cannot_say_what_it_rests_on_ends_no_gate(key: tuple[str, ...]) -> None:
    kind = type("Unsure", (Doubtful,), {"__doc__": Doubtful.__doc__, "needs": sg.Rule.needs})
    policy = one_rule_policy(kind, {}, key=key, then=sg.Action.BLOCK, on_error="closed")
    guard = sg.Guard(policy, limits=SessionLimits(max_live=4, max_states=2))
    for number in range(9):
        assert guard.check(sg.ToolCall(session_id="s", tool=f"t{number}")).action is sg.Action.ALLOW
    for number in range(4 * (key == ("session",))):
        guard.check(sg.ToolCall(session_id=f"s{number}", tool="t"))
    assert "could not judge" in guard.check(sg.ToolCall(session_id="s", tool="t1")).reason


def test_after_its_first_error_a_rule_is_rolled_back_on_the_next() -> None:
    trace = [{"call": name} for name in ("bad", "a", "bad", "b")]
    details = [detail for _, detail in run_rule(Fragile, {}, trace)]
    assert details[1:] == ["a 2", "b 3"]


def test_one_rule_that_raises_does_not_touch_the_others() -> None:
    rules = (rule_spec(Fragile, {}, rule_id="one"), rule_spec(EveryCall, {}, rule_id="two"))
    found = evaluate(events([{"call": "bad"}]), Policy(rules=rules, version="t"))
    assert [finding.rule_id for finding in found] == ["one", "two", "two"]


def test_an_edited_rule_does_not_read_the_old_ones_memory() -> None:
    store, found, counts = MemoryStore(), list[Finding](), Counts()
    gates: list[Any] = [None, []]
    for number, when in enumerate(gates):
        policy = one_rule_policy(EveryCall, {}, when=when)
        table = Judge(policy, mode="stream", store=store, counts=counts)
        [event] = events([{"call": "a", "event_id": f"e{number}"}])
        found += table.feed(event).findings
        table.commit()
    assert [finding.detail for finding in found] == ["a 1", "a 1"]
    assert counts.state_resets == 1


def test_alert_ids_depend_on_rule_session_and_event_alone() -> None:
    first, again = (evaluate(events([{"call": "a"}]), one_rule_policy(EveryCall, {})) for _ in range(2))
    other = evaluate(events([{"call": "a"}], "other"), one_rule_policy(EveryCall, {}))
    assert [finding.alert_id for finding in first] == [finding.alert_id for finding in again]
    assert not {finding.alert_id for finding in first} & {finding.alert_id for finding in other}


@pytest.mark.parametrize("mode", ["inline", "stream", "batch"])
def test_a_kind_runs_only_in_its_modes(mode: Any) -> None:
    class OnlyBatch(EveryCall):
        """Every call is counted, in batch."""

        modes = frozenset(("batch",))

    judge = Judge(one_rule_policy(OnlyBatch, {}), mode=mode)
    assert bool(judge.feed(sg.ToolCall(session_id="s", tool="a")).findings) is (mode == "batch")
