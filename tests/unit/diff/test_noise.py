"""The gate lets an agent pass that differs only from run to run, and stops one that got worse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stream_guard_diff import Diff, diff
from stream_guard_diff.comparison import DiffOptions
from stream_guard_diff.deciding import decide
from stream_guard_diff.gate import FailOn
from stream_guard_diff.judging import Thresholds, correct, deal, differences
from stream_guard_diff.pairing import Stratum

from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from tests.unit.diff.agents import Plant, edit_calls, lengthen, refuse, repeat_call, run, skip_confirmation
from tests.unit.diff.sample import AXES

TASKS = 40
POLICY = """\
rules:
  - {id: small-refunds, kind: tool_guard, severity: error, params: {tool: refund, args: {amount: {gt: 100}}}}
"""
NO_REFUND = "rules: [{id: no-refund, kind: no_call, params: {tool: refund_all}, severity: error}]"


def compared(plant: Plant | None = None, share: float = 0.3, **options: Any) -> Diff:
    new = run(2, TASKS, plant=plant, share=share)
    return diff(run(1, TASKS), new, axes=AXES, **options)


def rename_tool(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"name": "refund_all"}


def rename_argument(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"input": {"order": block["input"]["order_id"], "amount": block["input"]["amount"]}}


def wrong_order(block: dict[str, Any]) -> dict[str, Any]:
    return block | {"input": block["input"] | {"order_id": f"{block['input']['order_id']}9"}}


@pytest.mark.long
@pytest.mark.parametrize("runs", [5, pytest.param(10, marks=pytest.mark.slow)])
def test_two_runs_of_one_agent_pass_although_every_session_differs(runs: int) -> None:
    blocked = 0
    for seed in range(3, 3 + runs):
        found = diff(run(1, 20), run(seed, 20), axes=AXES)
        assert found.report.trips(FailOn.SEVERE), "to the letter, this agent never passes"
        blocked += decide(found.report).trips
    assert blocked <= 1


@pytest.mark.parametrize(
    ("plant", "axis"),
    [
        (refuse, "refusals"),
        (skip_confirmation, "skipped_steps"),
        (repeat_call, "repeats"),
        (lengthen, "tokens"),
        (edit_calls(rename_tool), "new_tools"),
        (edit_calls(rename_argument), "arguments"),
        (edit_calls(wrong_order), "odd_values"),
    ],
    ids=["refusal", "confirmation", "repeated", "tokens", "tool renamed", "argument renamed", "argument wrong"],
)
def test_a_fault_in_a_third_of_the_sessions_blocks_for_its_own_reason(plant: Plant, axis: str) -> None:
    found = compared(plant)
    answer = decide(found.report)
    assert answer.trips
    assert answer.by == "noise"
    blocking = {one.name: one for one in found.report.noise.axes if one.blocks}
    assert axis in blocking
    change = blocking[axis].changes[0]
    assert change.low <= change.effect <= change.high
    assert change.sessions
    assert all(int(session.rpartition("-")[2]) < 0.3 * TASKS for session in change.sessions)


@pytest.mark.long
@pytest.mark.parametrize(
    "plant",
    [refuse, repeat_call, edit_calls(rename_tool), edit_calls(rename_argument), edit_calls(wrong_order)],
    ids=["refusal", "repeated", "tool renamed", "argument renamed", "argument wrong"],
)
def test_a_fault_that_good_sessions_do_not_have_blocks_in_a_tenth_of_them(plant: Plant) -> None:
    found = diff(run(1, 100), run(2, 100, plant=plant, share=0.1), axes=AXES)
    assert decide(found.report).trips


@pytest.mark.parametrize("plant", [refuse, repeat_call, lengthen], ids=["refusal", "repeated", "tokens"])
def test_an_improvement_does_not_block_and_is_called_better(plant: Plant) -> None:
    found = diff(run(1, TASKS, plant=plant, share=0.4), run(2, TASKS), axes=AXES)
    answer = decide(found.report)
    assert not answer.trips, answer.verdict
    assert any(axis.verdict == "better" for axis in found.report.noise.axes)
    assert "better" in answer.verdict


def test_a_fault_beside_an_improvement_still_blocks() -> None:
    old, new = run(1, TASKS, plant=refuse, share=0.3), run(2, TASKS, plant=repeat_call, share=0.8)
    axes = {axis.name: axis for axis in diff(old, new, axes=AXES).report.noise.axes}
    assert axes["refusals"].verdict == "better"
    assert axes["repeats"].blocks


def test_a_fault_that_comes_where_another_went_still_blocks() -> None:
    old, new = run(1, TASKS, plant=refuse, share=0.4), run(2, TASKS, plant=repeat_call, share=0.4)
    axes = {axis.name: axis for axis in diff(old, new, axes=AXES).report.noise.axes}
    assert axes["refusals"].verdict == "better"
    assert axes["repeats"].blocks


@pytest.mark.long
def test_what_an_improvement_brings_along_is_explained_by_it() -> None:
    old, new = run(1, TASKS, plant=refuse, share=0.4), run(2, TASKS)
    report = diff(old, new, axes=AXES).report
    explained = {axis.name: axis.because for axis in report.noise.axes if axis.because}
    assert explained["tools"] == "refusals"
    assert "changed because of that" in decide(report).verdict
    strict = DiffOptions(thresholds=Thresholds({"tokens": 0.0}))
    assert decide(diff(old, new, axes=AXES, options=strict).report).trips, "the user allows no more of it"


def test_fewer_refusals_excuse_no_broken_rule() -> None:
    policy = load_policy(NO_REFUND, build_registry(), file="policy.yaml")
    old, new = run(1, TASKS, plant=refuse, share=0.3), run(2, TASKS, plant=edit_calls(rename_tool), share=0.3)
    report = diff(old, new, axes=AXES, policy=policy).report
    assert next(axis.verdict for axis in report.noise.behaviour if axis.name == "refusals") == "better"
    assert "no-refund" in decide(report).verdict
    assert decide(report).trips


def test_a_rule_that_more_sessions_break_blocks_and_swapping_the_sides_makes_it_a_fix() -> None:
    policy = load_policy(NO_REFUND, build_registry(), file="policy.yaml")
    old, new = run(1, TASKS), run(2, TASKS, plant=edit_calls(rename_tool), share=0.25)
    worse = diff(old, new, axes=AXES, policy=policy)
    better = diff(new, old, axes=AXES, policy=policy)
    assert decide(worse.report, "policy").trips
    assert "no-refund" in decide(worse.report, "policy").verdict
    assert not decide(better.report, "policy").trips
    assert len(worse.report.regressions) == len(better.report.fixes) == TASKS // 4
    assert not worse.report.fixes
    assert not better.report.regressions
    assert {one.session_id for one in worse.report.regressions} == {one.session_id for one in better.report.fixes}


@pytest.mark.parametrize("pairs", [1, 6, 7, 8])
def test_a_rule_that_every_session_breaks_anew_blocks_however_few_there_are(pairs: int) -> None:
    policy = load_policy(NO_REFUND, build_registry(), file="policy.yaml")
    new = run(2, pairs, plant=edit_calls(rename_tool), share=1.0)
    assert decide(diff(run(1, pairs), new, axes=AXES, policy=policy).report, "policy").trips


def test_a_rule_in_one_session_is_chance_unless_none_is_allowed() -> None:
    policy = load_policy(NO_REFUND, build_registry(), file="policy.yaml")
    plant = edit_calls(rename_tool)
    once = compared(plant, 1 / TASKS, policy=policy)
    assert not decide(once.report, "policy").trips
    none = DiffOptions(thresholds=Thresholds({"no-refund": 0.0}))
    assert decide(compared(plant, 1 / TASKS, policy=policy, options=none).report, "policy").trips


@pytest.mark.long
def test_a_threshold_of_an_axis_lets_a_smaller_change_pass() -> None:
    high = DiffOptions(thresholds=Thresholds({"refusals": 0.6, "turns": 0.9, "tools": 0.9, "order": 0.9}))
    strict, lenient = (decide(compared(refuse, options=options).report) for options in (None, high))
    assert strict.trips
    assert "refusals" in " ".join(strict.reasons)
    assert "refusals" not in " ".join(lenient.reasons)


def test_too_few_sessions_are_read_to_the_letter_and_the_answer_says_so() -> None:
    found = diff(run(1, 2), run(2, 2, plant=refuse, share=1.0), axes=AXES)
    answer = decide(found.report)
    assert answer.by == "letter"
    assert "too few" in answer.verdict
    assert answer.trips


@pytest.mark.long
def test_a_second_run_of_the_baseline_is_counted_with_the_first() -> None:
    found = compared(refuse, again=[run(3, TASKS), run(4, TASKS)])
    assert found.report.noise.baseline == 3 * TASKS
    assert len(found.report.further_trials) == 2 * TASKS
    assert decide(found.report).trips


def test_the_report_says_what_could_have_been_seen() -> None:
    few, many = (diff(run(1, count), run(2, count), axes=AXES).report.noise for count in (10, TASKS))
    seen_few, seen_many = ({axis.name: axis for axis in noise.axes} for noise in (few, many))
    errors = seen_few["errors"], seen_many["errors"]
    assert errors[0].detectable is not None
    assert errors[1].detectable is not None
    assert errors[0].detectable > errors[1].detectable > 0
    assert errors[1].sessions_needed is not None
    assert all((axis.sessions_needed or 0) < 10_000 for axis in (*few.axes, *many.axes))


def test_a_single_column_is_not_corrected_and_a_hundred_equal_ones_are_one() -> None:
    strata = [Stratum(str(place), "id", (place,), (place,)) for place in range(12)]
    values = np.concatenate([np.zeros(12), np.ones(12)])[:, None]
    deals = deal(strata, 24, 12)
    alone = correct(differences(deals, values), ["a"], {"a": 1.0}, 0.05)
    assert alone.raw[0] == alone.items[0] == pytest.approx(alone.groups["a"])
    assert alone.raw[0] < 0.001
    many = correct(differences(deals, np.repeat(values, 100, axis=1)), ["a"] * 100, {"a": 1.0}, 0.05)
    assert many.items[0] == pytest.approx(alone.items[0])


def test_sides_that_are_dealt_out_by_chance_are_found_different_as_rarely_as_the_level_says() -> None:
    drawn = np.random.default_rng(5)
    strata = [Stratum(str(place), "label", (2 * place, 2 * place + 1), (place,)) for place in range(20)]
    deals = deal(strata, 60, 40, count=400)
    groups = ["a"] * 5 + ["b"] * 20
    found = 0
    for _ in range(200):
        values = (drawn.random((60, 25)) < 0.3).astype(float)
        corrected = correct(np.abs(differences(deals, values)), groups, {"a": 1.0, "b": 0.2}, 0.05)
        found += min(corrected.groups.values()) <= 0.05
    assert found <= 20
