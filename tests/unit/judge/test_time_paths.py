"""The clock of an event in conditions: hours and days, zones, and times that no calendar has."""

from __future__ import annotations

import math

import pytest

from stream_guard.judge.model import ToolCall
from stream_guard.judge.paths import MISSING, Path
from stream_guard.registry import build_registry
from stream_guard.testing import run_rule

MONDAY = 1767625200.0  # 2026-01-05 15:00 UTC


def at(time: float | None) -> ToolCall:
    return ToolCall(session_id="s", tool="deploy", time=time)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("time.hour", 15),
        ("time.weekday", 1),
        ("time.Europe/Paris.hour", 16),
        ("time.America/New_York.hour", 10),
        ("time.Pacific/Auckland.weekday", 2),
    ],
)
def test_the_clock_is_that_of_utc_or_of_the_zone(path: str, shown: int) -> None:
    assert Path(path).find(at(MONDAY)) == shown


def test_a_zone_keeps_its_summer_time() -> None:
    assert [Path("time.Europe/Paris.hour").find(at(time)) for time in (MONDAY, MONDAY + 182 * 86400)] == [16, 17]


@pytest.mark.parametrize("time", [None, 1e20, -1e20, math.inf, -math.inf, math.nan])
def test_a_time_that_no_calendar_has_is_no_value_and_cannot_be_judged(time: float | None) -> None:
    path = Path("time.hour")
    assert path.find(at(time)) is MISSING
    assert path.lacks is not None
    assert path.lacks(at(time))


@pytest.mark.parametrize("path", ["time", "time.minute", "time.a.b.hour", "time.Mars/Olympus.hour", "time.../etc.hour"])
def test_a_path_that_no_clock_shows_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path "):
        Path(path)


def test_a_rule_over_the_clock_fires_at_that_hour_only() -> None:
    kind = build_registry().kinds["no_call"]
    trace = [{"call": "deploy", "at": MONDAY}, {"call": "deploy", "at": MONDAY + 7200}]
    gate = {"path": "time.hour", "op": ">=", "value": 17}
    assert [place for place, _ in run_rule(kind, {"tool": "deploy"}, trace, when=gate)] == [1]
