"""Open obligations: what would be found if the session ended now, for every kind, without a trace of having asked."""

from __future__ import annotations

import pytest

import stream_guard as sg
from stream_guard.judge.model import Action
from stream_guard.judge.spec import Policy, RuleSpec
from stream_guard.registry import build_registry
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore
from stream_guard.testing import events, rule_spec
from tests.replaying import ReplayingGuard

KINDS = build_registry().kinds
EXAMPLES = [(name, number) for name in sorted(KINDS) for number in range(len(KINDS[name].examples))]
TESTS_ASKED = {"tool": "run_tests"}


def obligation(**more: object) -> RuleSpec:
    return rule_spec(KINDS["must_call_once"], TESTS_ASKED, rule_id="tests", **more)  # type: ignore[arg-type]  # a spec's


def call(tool: str, session: str = "s") -> sg.ToolCall:
    return sg.ToolCall(session_id=session, tool=tool, args={}, time=1.0)


@pytest.mark.parametrize(("kind", "number"), EXAMPLES)
def test_asking_gives_what_the_end_would_give_and_changes_nothing(kind: str, number: int) -> None:
    example = KINDS[kind].examples[number]
    policy = Policy(rules=(rule_spec(KINDS[kind], example.params, rule_id="r"),), version="v")
    trace = [event for event in events(example.trace) if not isinstance(event, sg.SessionEnd)]
    asked, plain = ReplayingGuard(policy), ReplayingGuard(policy)
    found: list[sg.Finding] = []
    for event in trace:
        found += asked.observe(event)
        asked.open_obligations(event.session_id)
    expected = [finding for event in trace for finding in plain.observe(event)]
    assert found == expected
    for session in sorted({event.session_id for event in trace}):
        wanted = [finding for finding in plain.observe(sg.SessionEnd(session_id=session)) if finding.at == "end"]
        assert asked.open_obligations(session) == wanted
    assert asked.counts.events == plain.counts.events | {sg.SessionEnd: 0}
    assert asked.counts.sessions == len({event.session_id for event in trace})


def test_an_obligation_is_open_until_it_is_met() -> None:
    guard = ReplayingGuard(Policy(rules=(obligation(),), version="v"))
    [unmet] = guard.open_obligations("s")  # a session that has done nothing owes everything
    assert (unmet.rule_id, "run_tests" in unmet.detail) == ("tests", True)
    guard.check(call("edit"))
    assert [finding.rule_id for finding in guard.open_obligations("s")] == ["tests"]
    guard.check(call("run_tests"))
    assert guard.open_obligations("s") == []
    assert [finding.rule_id for finding in guard.open_obligations("t")] == ["tests"]


def test_neither_a_cooldown_nor_the_store_hides_an_obligation() -> None:
    rule = rule_spec(
        KINDS["must_followup"],
        {"trigger": [], "must": {"kind": "tool_call", "tool_name": "report"}},
        rule_id="followup",
        cooldown=3600,
    )
    guard = ReplayingGuard(Policy(rules=(rule,), version="v"), store=MemoryStore())
    for number in range(3):
        turn = sg.Turn(session_id="s", time=float(number), response={"content": [{"type": "text", "text": "done"}]})
        guard.observe(turn)
    guard.commit()
    assert [finding.rule_id for finding in guard.open_obligations("s")] == ["followup"]


def test_a_rule_in_shadow_mode_holds_nobody_up() -> None:
    assert ReplayingGuard(Policy(rules=(obligation(shadow=True),), version="v")).open_obligations("s") == []


def test_a_session_that_is_over_owes_nothing() -> None:
    stop = rule_spec(KINDS["no_call"], {"tool": "leak"}, rule_id="stop", then=Action.TERMINATE_SESSION)
    guard = ReplayingGuard(Policy(rules=(obligation(), stop), version="v"), limits=SessionLimits(end_from=()))
    assert guard.check(call("leak")).session_ended
    assert guard.open_obligations("s") == []
    guard.check(call("edit", "t"))
    guard.observe(sg.SessionEnd(session_id="t", time=2.0))
    assert guard.open_obligations("t") == []
