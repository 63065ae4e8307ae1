"""A worker on a machine whose clock is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.disturbances import CLOCKED, ENDED
from tests.worker.fleet import Fleet
from tests.worker.samples import checked, sample_rows

pytestmark = [pytest.mark.kafka, pytest.mark.long]

DAY = 86_400


@pytest.mark.parametrize("off", [-DAY, DAY])
def test_a_worker_whose_clock_is_wrong_loses_nothing(fleet: Fleet, policy: Path, tmp_path: Path, off: int) -> None:
    rows = sample_rows(60)
    clock = tmp_path / "clock"
    clock.write_text(str(off))
    fleet.cluster.fill(fleet.events, rows)
    process = {"launcher": (str(CLOCKED),), "env": {"CLOCK": str(clock)}}
    name = fleet.start(process=process)
    if off > 0:  # brokers take no records from the future, and the worker says what to look at
        assert fleet.end_of(name) == ENDED
        assert "clock" in fleet.log_of(name)
        clock.write_text("0")
        fleet.start(name, process=process)
    fleet.wait_for(len(rows))
    assert set(fleet.alert_ids()) == set(checked(rows, policy))
