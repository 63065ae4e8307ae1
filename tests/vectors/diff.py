"""Diff vectors: trajectories, divergences, gates, fingerprints and drift tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isclose
from typing import Any

import numpy as np
from stream_guard_diff import Diff, FailOn, diff
from stream_guard_diff.statistics import hotelling, turn_fingerprint
from stream_guard_diff.trails import read_turn

from stream_guard.judge.model import Event, SessionEnd, Turn
from stream_guard.policy.load import load_policy
from tests.vectors.case import LeftOut, WrongAnswerError, expect, preferred
from tests.vectors.measures import registry
from tests.vectors.policy import SESSION


def run(case: dict[str, Any]) -> LeftOut | None:
    """Run a case of any of the five sorts; what it holds says which one it is."""
    if "x1" in case:
        return run_hotelling(case)
    if "plain" in case:
        return run_fingerprint(case)
    if "fail_on" in case:
        return run_gate(case)
    if case.get("axis") == "trajectory":
        return run_trajectory(case)
    if "first_divergence" in case.get("expected", {}):
        return run_divergence(case)
    raise WrongAnswerError(f"no sort of diff case is known by these keys: {', '.join(case)}")


def run_trajectory(case: dict[str, Any]) -> LeftOut | None:
    """Compare the median over turns, the number of pairs, flags and severity."""
    if case.get("status") in ("quirk", "silent") and "recommended" not in case:
        return LeftOut("quirk without a recommended answer: dropped turns and missing input are ours to decide")
    report = _diff(case).report
    axis = next(axis for axis in report.axes if axis.name == "trajectory")
    wanted = preferred(case, case["seed_expected"] if case.get("status") == "contradiction" else case["expected"])
    _expect_close("value", axis.per_turn, wanted["value"], 1e-9)
    if "n" in wanted:
        expect("n", axis.pairs, wanted["n"])
    if "severity" in wanted:
        expect("severity", axis.severity, wanted["severity"])
    if "flags" in wanted:
        ours = {"low_power", "ci_crosses_zero"}
        expect("flags", sorted(ours & set(axis.flags)), sorted(ours & set(wanted["flags"])))
    return None


def run_divergence(case: dict[str, Any]) -> LeftOut | None:
    """Compare where the sides part first, and the ranked list."""
    if case.get("status") in ("quirk", "silent"):
        return LeftOut("quirk without a recommended answer")
    report = _diff(case).report
    found: list[dict[str, Any]] = [
        {
            "baseline_turn": one.baseline_turn,
            "candidate_turn": one.candidate_turn,
            "kind": f"{one.kind}_drift",
            "primary_axis": one.axis,
            "confidence": one.confidence,
        }
        for one in ([report.first_divergence] if report.first_divergence else []) + list(report.divergences)
    ]
    wanted = preferred(case, case.get("expected_for_us", case.get("seed_expected", case["expected"])))
    first = [wanted["first_divergence"]] if wanted["first_divergence"] else []
    everything = [*first, *wanted["ranked"]]
    expect("number of divergences", len(found), len(everything))
    for number, (got, expected) in enumerate(zip(found, everything, strict=True)):
        _expect_close(f"confidence of {number}", got.pop("confidence"), expected.pop("confidence"), 1e-9)
        expect(f"divergence {number}", got, expected)
    return None


def run_gate(case: dict[str, Any]) -> LeftOut | None:
    """Compare the exit code, and the regressions where they are given."""
    if case.get("status") in ("quirk", "silent") and "recommended_exit_code" not in case:
        return LeftOut("quirk without a recommended answer")
    report = _diff(case).report
    wanted = preferred(case, case["expected"])
    exit_code = case.get("recommended_exit_code", wanted["exit_code"])
    word = "none" if case["fail_on"] == "never" else case["fail_on"]
    said = {axis.name: axis.severity for axis in report.axes if axis.severity != "none"}
    if int(report.trips(FailOn(word))) != exit_code:
        raise WrongAnswerError(f"exit code: expected {exit_code} for --fail-on {word}; {said or 'no axis speaks'}")
    if wanted.get("regressions") is not None:
        expect("regressions", len(report.regressions), wanted["regressions"])
    return None


def run_fingerprint(case: dict[str, Any]) -> LeftOut | None:
    """Compare the numbers of each turn."""
    rows = [turn_fingerprint(turn) for turn in _turns(case["plain"])]
    wanted = case["expected"] if isinstance(case["expected"][0], list) else [case["expected"]]
    expect("rows", len(rows), len(wanted))
    for row, expected in zip(rows, wanted, strict=True):
        for number, (got, value) in enumerate(zip(row, expected, strict=True)):
            _expect_close(f"dimension {number}", got, value, 1e-9)
    return None


def run_hotelling(case: dict[str, Any]) -> LeftOut | None:
    """Compare the statistic, its distribution and the decision."""
    old, new = np.array(case["x1"], dtype=float), np.array(case["x2"], dtype=float)
    arguments = case.get("args", {})
    found = hotelling(old, new, permutations=arguments.get("permutations", 0))
    largest = max(float(np.abs(old).max()), float(np.abs(new).max()), 1e-150)
    if max(float(np.ptp(old, axis=0).max()), float(np.ptp(new, axis=0).max())) <= 1e-9 * largest:  # but for rounding
        return LeftOut("both sides constant: the measured value is rounding; here the drift is certain")
    wanted = preferred(case, case["expected"])
    for name in ("n1", "n2", "df1", "df2"):
        expect(name, getattr(found, name), wanted[name])
    for name in ("t2", "f_stat", "shrinkage"):
        _expect_close(name, getattr(found, name), wanted[name], 1e-6)
    if arguments.get("permutations", 0) <= 0:
        _expect_close("p_value", found.p_value, wanted["p_value"], 1e-6)
        expect("rejected", found.decision == "reject", wanted["decision"] == "reject")
    return None


def _diff(case: dict[str, Any]) -> Diff:
    policy = load_policy(json.dumps(case["policy"]), registry(), file="case.json") if case.get("policy") else None
    return diff(_session(case["baseline"]), _session(case["candidate"]), axes=registry().axes, policy=policy)


def _session(turns: list[dict[str, Any]]) -> Iterator[Event]:
    for number, turn in enumerate(turns):
        yield Turn(
            session_id=SESSION, event_id=f"turn-{number}", request=turn.get("request"), response=turn["response"]
        )
    yield SessionEnd(session_id=SESSION, event_id="end")


def _turns(rows: list[dict[str, Any]]) -> Iterator[Any]:
    for number, row in enumerate(rows):
        yield read_turn(number, row.get("request") or {}, row["response"])


def _expect_close(what: str, got: float | None, wanted: float | None, tolerance: float) -> None:
    same = (
        got is wanted if got is None or wanted is None else isclose(got, wanted, rel_tol=tolerance, abs_tol=tolerance)
    )
    if not same:
        raise WrongAnswerError(f"{what}: got {got!r}, expected {wanted!r}")
