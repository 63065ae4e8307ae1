"""States go to another group, into other partitions, while records come in: no alert is lost, none is extra."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from tests import processes
from tests.kafka.cluster import Row
from tests.worker.before import POLICY
from tests.worker.fleet import Fleet
from tests.worker.samples import checked, sample_rows
from tests.worker.test_succession import halves

pytestmark = pytest.mark.kafka


def run(fleet: Fleet, *words: object) -> tuple[int, str]:
    """Run a ``state`` command for the group of a fleet; its exit code and what it said."""
    done = processes.run("state", *words, fleet.cluster.url(fleet.events), "--group", fleet.group)
    return done.returncode, done.stderr.decode()


@pytest.mark.long
def test_a_group_moves_into_twice_the_partitions_while_records_come(
    fleet: Fleet, wide: Fleet, policy: Path, tmp_path: Path
) -> None:
    policy.write_text(POLICY)
    early, late = halves(sample_rows(300))
    fleet.cluster.fill(fleet.events, early)
    names = [fleet.start(), fleet.start()]
    # Producers have changed over: what they write waits in the new topic.
    step = len(late) // 3
    wide.cluster.fill(wide.events, late[:step])
    fleet.wait_for_all()
    for name in names:
        fleet.stop(name)
    wait_until_stopped(fleet, tmp_path / "early.state")
    filling = Thread(target=wide.cluster.fill, args=(wide.events, late[step : 2 * step]))
    filling.start()
    code, said = run(wide, "import", tmp_path / "early.state")
    assert code == 0, said
    wide.start()
    wide.start()
    filling.join()
    wide.cluster.fill(wide.events, late[2 * step :])
    wide.wait_for(len(late))
    wanted = checked([*early, *late], policy)
    assert len(wanted) > 30
    assert set(fleet.alert_ids()) | set(wide.alert_ids()) == set(wanted)
    assert not set(fleet.alert_ids()) & set(wide.alert_ids())


def wait_until_stopped(fleet: Fleet, file: Path) -> None:
    """Export as soon as the brokers count none of the workers any more."""

    def exported() -> bool:
        code, said = run(fleet, "export", file)
        assert code == 0 or "is running" in said, said
        return code == 0

    fleet.wait_until(exported)


@pytest.mark.long
def test_another_group_goes_on_with_the_unread_records_of_the_same_topic(
    make_fleet: Callable[[], Fleet], policy: Path, tmp_path: Path
) -> None:
    old, new = make_fleet(), make_fleet()
    new.events = old.events
    policy.write_text(POLICY)
    early, late = halves(sample_rows(80))
    old.cluster.fill(old.events, early)
    name = old.start()
    old.wait_for(len(early))
    old.kill(name)
    old.cluster.fill(old.events, late)
    wait_until_stopped(old, tmp_path / "all.state")
    assert run(new, "import", tmp_path / "all.state")[0] == 0
    new.start()
    new.wait_for(len(early) + len(late))
    assert set(old.alert_ids()) | set(new.alert_ids()) == set(checked([*early, *late], policy))


@pytest.mark.long
def test_what_cannot_be_moved_is_refused_and_changes_nothing(fleet: Fleet, wide: Fleet, tmp_path: Path) -> None:
    rows = sample_rows(40, open_every=2)
    code, said = run(fleet, "export", tmp_path / "none.state")
    assert (code, "has no states" in said) == (3, True), said
    fleet.cluster.fill(fleet.events, rows)
    name = fleet.start()
    fleet.wait_for_all()
    code, said = run(fleet, "export", tmp_path / "none.state")
    assert (code, "is running, with 1 workers" in said) == (3, True), said
    fleet.stop(name)
    wait_until_stopped(fleet, tmp_path / "read.state")
    assert run(fleet, "export", tmp_path / "read.state")[0] == 2, "it would overwrite a savepoint"
    code, said = run(fleet, "import", tmp_path / "read.state")
    assert (code, "has states already" in said) == (3, True), said
    fleet.cluster.fill(fleet.events, [Row(b"{}", b"late")])
    assert run(fleet, "export", tmp_path / "unread.state")[0] == 0
    code, said = run(wide, "import", tmp_path / "unread.state")
    assert (code, "records that the group has not read" in said) == (3, True), said
    whole = (tmp_path / "read.state").read_bytes()
    (tmp_path / "cut.state").write_bytes(whole[:-20])
    code, said = run(wide, "import", tmp_path / "cut.state")
    assert (code, "cut off" in said) == (3, True), said
    assert not wide.rows(), "nothing was half imported"
    assert run(wide, "import", tmp_path / "read.state")[0] == 0
    code, said = run(wide, "import", tmp_path / "read.state")
    assert (code, "has states already" in said) == (3, True), said
