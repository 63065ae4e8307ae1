"""The gate sees what must not merge, and lets improvements through."""

from __future__ import annotations

import pytest
from stream_guard_diff import FailOn

from stream_guard.judge.model import Event
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from tests.unit.diff.sample import compared, session, severities, turn

TEXTS = [turn(text) for text in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")]
BASE = session(*TEXTS)


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        ([], "turns"),
        (session(*TEXTS[:3]), "turns"),
        (session(*TEXTS, turn("bye", ("delete_all", {}))), "trajectory"),
    ],
    ids=["empty", "half the turns dropped", "an extra delete_all"],
)
def test_the_gate_trips(candidate: list[Event], why: str) -> None:
    report = compared(BASE, candidate).report
    assert report.trips(FailOn.SEVERE)
    assert f"{why} is severe" in report.reasons(FailOn.SEVERE)
    assert not report.trips(FailOn.NONE)


def test_one_new_tool_among_hundreds_of_calls_is_severe() -> None:
    calls = [turn("", ("search", {"i": number}), stop="tool_use") for number in range(300)]
    found = compared(session(*calls), session(*calls, turn("", ("delete_all", {}))))
    assert severities(found)["trajectory"] == "severe"


def test_halved_latency_passes_the_strictest_gate_and_is_called_better() -> None:
    quick = session(*(response | {"latency_ms": 50} for response in TEXTS))
    report = compared(BASE, quick).report
    assert not report.trips(FailOn.MINOR)
    assert next(axis for axis in report.axes if axis.name == "latency").direction == "better"
    assert compared(quick, BASE).report.trips(FailOn.SEVERE)


def test_sessions_that_are_missing_count_as_dropped_turns() -> None:
    two = session(*TEXTS, name="a") + session(*TEXTS, name="b")
    report = compared(two, session(*TEXTS, name="b")).report
    assert report.trips(FailOn.SEVERE)
    assert [(one.baseline, one.candidate) for one in report.sessions] == [("a", ""), ("b", "b")]


def test_sessions_without_a_shared_id_are_paired_in_order() -> None:
    report = compared(session(*TEXTS, name="old"), session(*TEXTS, name="new")).report
    assert report.severity == "none"
    assert report.divergence_count == 0


@pytest.mark.parametrize(
    ("severity", "trip", "rest"),
    [("info", "minor", "moderate"), ("warning", "moderate", "severe"), ("critical", "severe", None)],
)
def test_a_broken_rule_weighs_what_its_severity_says(severity: str, trip: str, rest: str | None) -> None:
    text = f"rules: [{{id: r, kind: max_turns, params: {{limit: 6}}, severity: {severity}}}]"
    policy = load_policy(text, build_registry(), file="policy.yaml")
    longer = session(*TEXTS, turn("eta"))
    report = compared(BASE, longer, policy).report
    assert [alert.rule_id for alert in report.regressions] == ["r"]
    assert report.trips(FailOn(trip))
    assert rest is None or not report.trips(FailOn(rest))
    fixed = compared(longer, BASE, policy).report
    assert not fixed.trips(FailOn.MINOR)
    assert len(fixed.fixes) == 1
