"""Verdicts to tuning: advice only from enough of them, and exceptions only where right findings still fire."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_guard.analysis.exceptions import NoExceptionError, propose_exception
from stream_guard.analysis.labels import advise
from stream_guard.history.verdicts import VerdictCounts
from stream_guard.judge.conditions import Condition
from stream_guard.judge.model import Event, ToolCall, Turn
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate

REGISTRY = build_registry()
RULE = "rules: [{id: no-pay, kind: no_call, params: {tool: pay}%s}]"


def policy(more: str = "") -> Policy:
    return load_policy((RULE % more).encode(), REGISTRY, file="policy.yaml", folder=Path())


def call(session: str, **fields: object) -> ToolCall:
    agent, labels = str(fields.pop("agent", "bot")), fields.pop("labels", {})
    return ToolCall(session_id=session, event_id=f"e-{session}", tool="pay", args=fields, agent=agent, labels=labels)  # type: ignore[arg-type]


def judged(events: list[Event], words: dict[str, str], rules: Policy) -> dict[str, str]:
    return {found.alert_id: words[found.session_id] for found in evaluate(events, rules) if found.session_id in words}


@pytest.mark.parametrize(
    ("counts", "advice"),
    [
        (VerdictCounts(9, 0, 0), "undecided"),
        (VerdictCounts(0, 0, 0), "undecided"),
        (VerdictCounts(8, 1, 1), "keep"),
        (VerdictCounts(7, 2, 1), "tune"),
        (VerdictCounts(1, 0, 8), "undecided"),
        (VerdictCounts(1, 5, 4), "retire"),
        (VerdictCounts(2, 8, 0), "tune"),
        (VerdictCounts(0, 0, 10), "retire"),
    ],
)
def test_a_rule_is_kept_tuned_or_retired_by_enough_verdicts(counts: VerdictCounts, advice: str) -> None:
    [found] = advise(["r"], {"r": counts})
    assert found.advice == advice


@pytest.mark.parametrize(
    ("wrong", "right", "unless"),
    [
        ([{"to": "petty"}, {"to": "petty"}], [{"to": "x"}], {"path": "tool.args.to", "op": "==", "value": "petty"}),
        (
            [{"to": "a"}, {"to": "b"}],
            [{"to": "x"}, {"to": "y"}],
            {"path": "tool.args.to", "op": "in", "value": ["a", "b"]},
        ),
        (
            [{"amount": n} for n in range(1, 9)],
            [{"amount": 20}],
            {"path": "tool.args.amount", "op": "<=", "value": 8},
        ),
        ([{"test": True}], [{"test": 1}], {"path": "tool.args.test", "op": "==", "value": True}),
        ([{"agent": "qa"}], [{"agent": "live"}], {"path": "agent", "op": "==", "value": "qa"}),
        ([{"labels": {"env": "a"}}], [{"labels": {"env": "b"}}], {"path": "labels.env", "op": "==", "value": "a"}),
        ([{"to": {"kind": "a"}}], [{"to": {"kind": "b"}}], {"path": "tool.args.to.kind", "op": "==", "value": "a"}),
    ],
)
def test_an_exception_is_what_wrong_findings_share_and_right_ones_do_not(
    wrong: list[dict[str, object]], right: list[dict[str, object]], unless: object
) -> None:
    events: list[Event] = [call(f"w{n}", **one) for n, one in enumerate(wrong)]
    events += [call(f"r{n}", **one) for n, one in enumerate(right)]
    words = {event.session_id: "wrong" if event.session_id[0] == "w" else "right" for event in events}
    found = propose_exception(policy(), "no-pay", events, judged(events, words, policy()))
    assert found.unless == unless
    assert (found.proof.wrong_gone, found.proof.right) == (len(wrong), len(right))
    changed = policy(f", unless: {Condition(found.unless).source!r}".replace("'", '"').replace("True", "true"))
    left = {one.session_id for one in evaluate(events, changed)}
    assert left == {f"r{n}" for n in range(len(right))}


def test_there_is_none_where_nothing_tells_them_apart() -> None:
    events: list[Event] = [call("w", to="x"), call("r", to="x")]
    with pytest.raises(NoExceptionError, match="in common"):
        propose_exception(policy(), "no-pay", events, judged(events, {"w": "wrong", "r": "right"}, policy()))


def test_there_is_none_where_a_right_finding_cannot_be_replayed() -> None:
    events: list[Event] = [call("w", to="x")]
    said = {**judged(events, {"w": "wrong"}, policy()), "gone": "right"}
    with pytest.raises(NoExceptionError, match="1 of 1 findings marked right are not found"):
        propose_exception(policy(), "no-pay", events, said)


def test_an_exception_joins_the_one_that_is_there() -> None:
    rules = policy(', unless: {path: agent, op: "==", value: root}')
    events: list[Event] = [call("w", to="petty"), call("r", to="x"), call("n", to="x", agent="root")]
    found = propose_exception(rules, "no-pay", events, judged(events, {"w": "wrong", "r": "right"}, rules))
    assert found.unless["any_of"][0] == {"path": "agent", "op": "==", "value": "root"}


def test_findings_that_nobody_judged_and_that_go_are_counted() -> None:
    events: list[Event] = [call("w", to="petty"), call("u", to="petty"), call("r", to="x")]
    found = propose_exception(policy(), "no-pay", events, judged(events, {"w": "wrong", "r": "right"}, policy()))
    assert found.proof.others_gone == 1


def test_calls_inside_turns_count_too() -> None:
    def turn(session: str, to: str) -> Turn:
        block = {"type": "tool_use", "id": f"c-{session}", "name": "pay", "input": {"to": to}}
        return Turn(session_id=session, event_id=f"t-{session}", response={"content": [block]})

    events: list[Event] = [turn("w", "petty"), turn("r", "x")]
    found = propose_exception(policy(), "no-pay", events, judged(events, {"w": "wrong", "r": "right"}, policy()))
    assert found.unless == {"path": "tool.args.to", "op": "==", "value": "petty"}
