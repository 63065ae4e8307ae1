"""States that move to another cluster, of re-keyed records, of rules across sessions, and past imports that die."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream_guard.worker.rows import waiting_prefix
from tests import processes
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster, Row
from tests.worker.before import POLICY
from tests.worker.fleet import Fleet
from tests.worker.samples import checked, sample_rows
from tests.worker.test_rekeying import REKEYED, by_customer
from tests.worker.test_savepoints import run, wait_until_stopped
from tests.worker.test_spanning import POLICY as ACROSS
from tests.worker.test_spanning import SPANNING, tenants
from tests.worker.test_succession import halves

pytestmark = [pytest.mark.kafka, pytest.mark.long]

DAY = 86_400.0


def export(fleet: Fleet, rows: list[Row], file: Path, *topics: str, **settings: Any) -> None:
    """Have a worker judge records and stop, and export its states; it passes records through the ``topics``."""
    fleet.cluster.fill(fleet.events, rows)
    name = fleet.start(**settings)
    fleet.wait_for_all(*topics)
    fleet.wait_until(lambda: not waiting(fleet))
    fleet.stop(name)
    wait_until_stopped(fleet, file)


def sent_by(*fleets: Fleet) -> set[str]:
    """The ids of the alerts of fleets; none of them has sent one of another's."""
    listed = [alert_id for fleet in fleets for alert_id in set(fleet.alert_ids())]
    assert len(listed) == len(set(listed))
    return set(listed)


def test_states_move_to_another_cluster(
    fleet: Fleet, make_fleet: Callable[[], Fleet], policy: Path, tmp_path: Path
) -> None:
    policy.write_text(POLICY)
    early, late = halves(sample_rows(80))
    export(fleet, early, tmp_path / "all.state")
    with Broker(tmp_path / "other") as other:
        there = make_fleet()
        there.move_to(Cluster(other.address(), "there"))
        there.cluster.fill(there.events, late[:50])
        code, said = run(there, "import", tmp_path / "all.state")
        assert code == 0, said
        last = there.start()
        there.cluster.fill(there.events, late[50:])
        there.wait_for(len(late))
        found = sent_by(fleet, there)
        there.stop(last)
    assert found == set(checked([*early, *late], policy))


def test_an_import_that_is_killed_again_and_again_is_finished_by_the_next(
    fleet: Fleet, wide: Fleet, policy: Path, tmp_path: Path
) -> None:
    policy.write_text(POLICY)
    early, late = halves(sample_rows(200))
    file, dice = tmp_path / "all.state", random.Random(3)
    export(fleet, early, file)
    killed = [kill_import(wide, file, looks=dice.randrange(3)) for _ in range(8)]
    code, said = run(wide, "import", file)
    assert code == 0 or "has states already" in said, said
    assert any(killed), "no import was killed after it had begun to write"
    wide.start()
    wide.cluster.fill(wide.events, late)
    wide.wait_for(len(late))
    assert sent_by(fleet, wide) == set(checked([*early, *late], policy))


def kill_import(fleet: Fleet, file: Path, *, looks: int) -> bool:
    """Kill an import when some of its rows are there, and some looks later; whether it had not ended by then."""
    importing = processes.start("state", "import", file, fleet.cluster.url(fleet.events), "--group", fleet.group)
    fleet.wait_until(lambda: fleet.rows() or importing.poll() is not None)
    for _ in range(looks):
        fleet.rows()
    importing.kill()
    return importing.wait() < 0


def test_rekeyed_sessions_move_into_twice_the_partitions(
    fleet: Fleet, wide: Fleet, policy: Path, tmp_path: Path
) -> None:
    policy.write_text(POLICY)
    early, late = (by_customer(part) for part in halves(sample_rows(100)))
    export(fleet, early, tmp_path / "all.state", REKEYED, options=("--no-serve", "--rekey"))
    code, said = run(wide, "import", tmp_path / "all.state")
    assert code == 0, said
    wide.start(options=("--no-serve", "--rekey"))
    wide.cluster.fill(wide.events, late)
    wanted = checked([*early, *late], policy)
    wide.wait_for_all(REKEYED)
    wide.wait_until(lambda: set(fleet.alert_ids()) | set(wide.alert_ids()) >= set(wanted))
    assert sent_by(fleet, wide) == set(wanted)


def test_states_of_rules_across_sessions_move_into_twice_the_partitions(
    fleet: Fleet, wide: Fleet, policy: Path, tmp_path: Path
) -> None:
    policy.write_text(ACROSS)
    rows = tenants(200, wide.partitions)
    # A day between: what waits for no other event has been judged before the move.
    early = [row for row in rows if number_of(row) < 100]
    late = [later(row) for row in rows if number_of(row) >= 100]
    export(fleet, early, tmp_path / "all.state", SPANNING, worker__idle_grace="1")
    code, said = run(wide, "import", tmp_path / "all.state")
    assert code == 0, said
    wide.cluster.fill(wide.events, late)
    wide.start()
    wanted = checked([*early, *late], policy)
    wide.wait_for_all(SPANNING)
    wide.wait_until(lambda: set(fleet.alert_ids()) | set(wide.alert_ids()) >= set(wanted))
    assert sent_by(fleet, wide) == set(wanted)


def number_of(row: Row) -> int:
    """The number of a sample session; those that only move clocks come last."""
    name = (row.key or b"").decode()
    return 10_000 if name.startswith("late") else int(name[-5:])


def later(row: Row) -> Row:
    """The same record, a day later."""
    event = json.loads(row.value or b"")
    return row._replace(value=json.dumps(event | {"time": event["time"] + DAY}).encode())


def waiting(fleet: Fleet) -> int:
    """How many events wait for the clocks of other partitions."""
    return sum(key.startswith(waiting_prefix(number)) for key in fleet.rows() for number in range(fleet.partitions))
