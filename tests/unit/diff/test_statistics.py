"""Numbers of the diff: intervals, distributions, drift."""

from __future__ import annotations

from math import inf
from typing import Literal

import numpy as np
import pytest
from stream_guard_diff.gate import ChangeLevel
from stream_guard_diff.statistics import critical, hotelling, interval, power, severity, upper_tail

from stream_guard.judge.model import Event
from tests.unit.diff.sample import compared, session, turn


def test_an_interval_is_the_same_every_time_and_holds_the_difference() -> None:
    drawn = np.random.default_rng(1)
    old, new = drawn.normal(100, 10, 200), drawn.normal(120, 10, 200)
    low, high = interval(old, new, "median")
    assert (low, high) == interval(old, new, "median")
    assert 10 < low < 20 < high < 30


def test_few_pairs_say_so() -> None:
    few = compared(session(turn("a")), session(turn("a", latency=900.0))).report
    latency = next(axis for axis in few.axes if axis.name == "latency")
    assert "low_power" in latency.flags


@pytest.mark.parametrize(
    ("delta", "scale", "level"),
    [
        (0.04, "rate", ChangeLevel.MINOR),
        (0.05, "rate", ChangeLevel.MODERATE),
        (0.15, "rate", ChangeLevel.SEVERE),
        (9.0, "relative", ChangeLevel.MINOR),
        (10.0, "relative", ChangeLevel.MODERATE),
        (30.0, "relative", ChangeLevel.SEVERE),
    ],
)
def test_severity_steps_at_its_bounds(delta: float, scale: Literal["relative", "rate"], level: ChangeLevel) -> None:
    assert severity(delta, 100.0, delta, delta, scale) is level


def test_an_unsure_difference_is_never_more_than_minor() -> None:
    assert severity(40.0, 100.0, -30.0, 90.0, "relative") is ChangeLevel.MINOR


def test_the_f_distribution_agrees_with_its_tables() -> None:
    # The five per cent points that every table of the distribution prints.
    assert critical(0.05, 2, 10) == pytest.approx(4.103, abs=5e-4)
    assert critical(0.05, 5, 20) == pytest.approx(2.711, abs=5e-4)
    assert upper_tail(critical(0.01, 3, 7), 3, 7) == pytest.approx(0.01, abs=1e-9)


def test_power_is_the_level_without_a_difference_and_one_with_a_large_one() -> None:
    assert power(0.0, 2, 20) == pytest.approx(0.05, abs=1e-6)
    assert power(5.0, 2, 20) < power(10.0, 2, 20) < 1.0
    assert power(inf, 2, 20) == 1.0


def test_sides_that_are_constant_and_differ_have_drifted() -> None:
    drift = hotelling(np.zeros((20, 3)), np.ones((20, 3)))
    assert drift.t2 == inf
    assert drift.decision == "reject"
    assert hotelling(np.ones((20, 3)), np.ones((20, 3))).decision != "reject"


def test_a_drift_that_no_single_axis_gates_is_reported() -> None:
    def sessions(calls: int) -> list[Event]:
        made: list[Event] = []
        for number in range(8):
            turns = [turn(f"note {number}", ("look", {"n": number}))] * (3 + number % 2) + [turn("ok 1 2 3")] * calls
            made += session(*turns, name=f"s{number}")
        return made

    same = compared(sessions(2), sessions(2)).report.drift
    moved = compared(sessions(2), sessions(6)).report.drift
    assert same is not None
    assert same.test.decision != "reject"
    assert moved is not None
    assert moved.test.decision == "reject"
