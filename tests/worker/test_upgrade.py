"""Workers of the version before are replaced by workers of this one, one at a time, while records come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.worker.before import POLICY, install_before
from tests.worker.fleet import Fleet
from tests.worker.samples import checked, sample_rows
from tests.worker.test_succession import halves

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How to start a process of the version before."""
    return install_before(tmp_path_factory.mktemp("before"))


def test_a_rolling_upgrade_under_load_loses_and_repeats_nothing_in_any_session(
    before: dict[str, Any], fleet: Fleet, policy: Path
) -> None:
    policy.write_text(POLICY)
    early, late = halves(sample_rows(600))
    names = [fleet.start(process=before) for _ in range(3)]
    fleet.cluster.fill(fleet.events, early)
    fleet.wait_for(len(early))
    assert len(fleet.sessions()) > 500
    step = len(late) // 4
    for number, name in enumerate(names):
        fleet.cluster.fill(fleet.events, late[number * step : (number + 1) * step])
        fleet.stop(name)
        fleet.start(name)
        fleet.wait_for(len(early) + (number + 1) * step)
    fleet.cluster.fill(fleet.events, late[3 * step :])
    fleet.wait_for(len(early) + len(late))
    wanted = checked([*early, *late], policy)
    assert len(wanted) > 50
    assert set(fleet.alert_ids()) == set(wanted)
    assert "worker.kafka" not in "".join(map(fleet.log_of, names)), "no traceback"


def test_workers_of_both_versions_share_a_group_in_either_direction(
    before: dict[str, Any], fleet: Fleet, policy: Path
) -> None:
    policy.write_text(POLICY)
    early, late = halves(sample_rows(400))
    older, newer, other = fleet.start(process=before), fleet.start(), fleet.start()
    fleet.cluster.fill(fleet.events, early)
    fleet.wait_for(len(early))
    step = len(late) // 4
    pieces = [late[number * step : (number + 1) * step if number < 3 else len(late)] for number in range(4)]
    fleet.cluster.fill(fleet.events, pieces[0])
    fleet.kill(newer)
    fleet.start(newer, process=before)  # back to the version before, under the same name
    fleet.cluster.fill(fleet.events, pieces[1])
    fleet.kill(older)
    fleet.start(older)
    fleet.cluster.fill(fleet.events, pieces[2])
    fleet.kill(other)
    fleet.cluster.fill(fleet.events, pieces[3])
    fleet.wait_for(len(early) + len(late))
    assert set(fleet.alert_ids()) == set(checked([*early, *late], policy))
    assert "worker.kafka" not in "".join(map(fleet.log_of, (older, newer, other))), "no traceback"
