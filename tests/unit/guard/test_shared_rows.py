"""Guards that share the rows of sessions, maybe under two policies while one of them is rolled out."""

from __future__ import annotations

from typing import Any

import pytest

import stream_guard as sg
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore

REGISTRY = build_registry()
TWICE = "{id: twice, kind: max_calls, params: {tool: pay, n: 2}, then: block}"
KEYED = "{id: keyed, kind: must_call_before, params: {first: ask, second: close, same_arg: id}, then: block}"
HELD = "{id: held, kind: max_calls, params: {tool: pay, n: 0}, for: 10s, then: block}"
ONCE = "{id: once, kind: max_calls, params: {tool: look, n: 0}, cooldown: 1h}"
BY_USER = "kind: max_aggregate, key: [labels.user], then: block, params: {tool: pay, measure: count"
A_DAY = f"{{id: day, {BY_USER}, over: 2, window_seconds: 24h}}}}"
A_MINUTE = f"{{id: minute, {BY_USER}, over: 50, window_seconds: 60}}}}"
OTHER = "{id: other, kind: max_calls, params: {tool: look, n: 2}, key: [session, args.order], then: block}"


class Shared(MemoryStore):
    """Rows that other gates read and write too: nothing of them is kept in memory."""

    is_shared = True  # type: ignore[misc]

    def deadlines(self) -> Any:
        return iter(())


class Gates:
    """Gates over the same rows, each with its own policy, and one clock."""

    def __init__(self, *policies: str, limits: SessionLimits | None = None) -> None:
        self.now, self.store = 0.0, Shared()
        texts = [text if "rules:" in text else f"rules: [{text}]" for text in policies]
        loaded = [load_policy(text, REGISTRY, file="p.yaml") for text in texts]
        self.guards = [Guard(one, store=self.store, limits=limits, clock=lambda: self.now) for one in loaded]
        self.asked = 0

    def may(self, gate: int, tool: str = "pay", session: str = "s", **more: Any) -> bool:
        self.asked += 1
        told = {"args": {}, "labels": {"user": "u"}, **more}
        call = sg.ToolCall(session_id=session, tool=tool, call_id=f"c{self.asked}", **told)
        return self.guards[gate].check(call).action is Action.ALLOW


@pytest.mark.parametrize("policy", [TWICE, OTHER])
def test_what_a_session_knew_that_no_row_can_hold_is_in_doubt_at_every_gate(policy: str) -> None:
    gates = Gates(TWICE, policy, TWICE, limits=SessionLimits(max_session_bytes=20_000))
    assert [gates.may(0) for _ in range(3)] == [True, True, False]
    gates.guards[1].observe(sg.UserMessage(session_id="s", text="hi", part="p" * 30_000))
    assert gates.guards[1].counts.evictions["session_bytes"] == 1
    assert len(gates.store.get("s") or b"") < 200
    for gate in (2, 0, 2):
        assert not gates.may(gate)
    assert gates.may(1, "look"), "nothing of that was known"
    assert gates.may(2, session="t")
    gates.now += 1800
    assert [gates.may(0) for _ in range(3)] == [True, True, False], "after its idle time it begins anew"


@pytest.mark.parametrize("big", [7, 2**70, "\ud800"])
@pytest.mark.parametrize("both", [False, True])
def test_states_of_rules_that_only_another_gate_has_stay_in_any_row(big: object, *, both: bool) -> None:
    gates = Gates(f"{TWICE}, {KEYED}" if both else TWICE, OTHER)
    args = {"id": big, "order": big}
    assert [gates.may(0), gates.may(0, "ask", args=args)] == [True, True]
    assert gates.may(1, "look", args=args)
    assert gates.may(1, "look", session="\ud800", args=args)
    assert gates.may(0)
    assert gates.may(1, "look", agent="a", args=args)
    assert not gates.may(1, "look", args=args)
    assert not gates.may(0)
    assert gates.may(0, "close", args=args)
    for guard in gates.guards:
        assert not guard.counts.state_resets
        assert not guard.counts.evictions


def test_what_rules_hold_beside_states_stays_where_another_gate_lacks_them() -> None:
    gates = Gates(f"{HELD}, {ONCE}", OTHER)
    answers, told = [], 0
    for number in range(5):
        answers.append(gates.may(0))
        told += len(gates.guards[0].observe(sg.ToolCall(session_id="s", tool="look", call_id=f"l{number}", args={})))
        assert gates.may(1, "other")
        gates.now += 6
    assert answers == [True, True, False, False, False]
    assert told == 1


@pytest.mark.parametrize(
    ("longer", "shorter"),
    [
        (f"sessions: {{idle: 24h}}\nrules: [{TWICE}]", f"sessions: {{idle: 60s}}\nrules: [{OTHER}]"),
        (f"rules: [{A_DAY}]", f"rules: [{A_MINUTE}]"),
    ],
    ids=["session", "key"],
)
def test_a_gate_that_forgets_sooner_lets_no_limit_of_another_begin_anew(longer: str, shorter: str) -> None:
    gates = Gates(longer, shorter, longer)
    assert [gates.may(0) for _ in range(3)] == [True, True, False]
    gates.now += 3600
    assert gates.may(1)
    assert gates.may(1)
    gates.now += 3600
    assert gates.may(1)
    assert not gates.may(2)
    gates.now += 25 * 3600
    assert gates.may(1)
    assert [gates.may(0) for _ in range(3)] == [True, True, False], "after so long a silence it begins anew"
