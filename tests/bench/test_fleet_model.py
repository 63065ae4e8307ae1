"""The model of a fleet shares cores, falls behind when workers are too few, and catches up when they are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.bench.fleet_model import Behind, drain, keep_up, share_out
from tests.bench.sizing import MEASURED

COSTS = replace(MEASURED, worker_us=80.0, wait_us=20.0, broker_us=10.0)


def test_partitions_are_shared_out_once_each() -> None:
    shared = share_out(10, 4)
    assert sorted(number for owned in shared for number in owned) == list(range(10))
    assert {len(owned) for owned in shared} == {2, 3}


@pytest.mark.parametrize(
    ("workers", "cores", "rate"),
    [
        (1, 2.0, 1e6 / 100),  # it works, and waits
        (4, 64.0, 4e6 / 100),
        (4, 2.0, 2e6 / 90),  # all cores are busy, with a worker's and a broker's part
    ],
)
def test_workers_are_as_quick_as_they_are_or_as_the_cores(workers: int, cores: float, rate: float) -> None:
    assert drain(COSTS, [50_000] * 8, workers, cores) == pytest.approx(rate, rel=0.01)


def kept_up(load: float) -> Behind:
    """Eight workers with so much to do, one of which dies for 15 seconds."""
    rate = load * 8 * 1e6 / (COSTS.worker_us + COSTS.wait_us)
    return keep_up(COSTS, rate=rate, partitions=64, workers=8, sessions=50_000, death=15.0, seed=3)


def test_after_a_death_lag_is_as_long_as_nobody_judged_and_goes() -> None:
    light, heavy = kept_up(0.4), kept_up(0.7)
    assert light.takeover_lag == pytest.approx(15.0, abs=1.0)
    assert light.usual_lag < 0.5
    assert 15 <= light.recovery < heavy.recovery < 180


def test_workers_that_are_too_few_fall_behind_for_good() -> None:
    behind = kept_up(1.2)
    assert behind.max_load > 1.0
    assert behind.recovery == 180, "to the end"
