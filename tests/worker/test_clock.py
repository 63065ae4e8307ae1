"""A worker on a machine whose clock is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import processes
from tests.kafka.cluster import Cluster
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


def test_alerts_of_a_run_whose_clock_is_ahead_wait_until_it_is_right(
    cluster: Cluster, policy: Path, tmp_path: Path
) -> None:
    rows, topic = sample_rows(20), cluster.create()
    events, clock = tmp_path / "events.jsonl", tmp_path / "clock"
    events.write_bytes(b"".join((row.value or b"") + b"\n" for row in rows))
    command = ["run", events, "--policy", policy, "--checkpoint", tmp_path / "progress.db", "--no-serve"]
    command += ["--alerts", f"kafka:{cluster.address}/{topic}"]
    said = []
    for off in (DAY, 0):
        clock.write_text(str(off))
        done = processes.run(*command, launcher=(str(CLOCKED),), env={"CLOCK": str(clock)})
        said.append((done.returncode, "clock" in done.stderr.decode()))
    assert said == [(ENDED, True), (0, False)]
    sent = {json.loads(record.value)["id"] for record in cluster.read(topic)}
    assert sent == set(checked(rows, policy))
