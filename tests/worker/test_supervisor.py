"""``worker --processes``: workers that die are started again, those that keep dying end all, and nothing is lost."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stream_guard.cli.workers import check_ports, own_options, own_variables
from stream_guard.errors import SettingsError, StreamGuardError
from stream_guard.settings import DeliverySettings, Settings, StatusSettings, WorkerSettings
from stream_guard.worker.supervisor import CHECK, LONGEST_PAUSE, MOST_FAILURES, SETTLED, Supervisor, WorkersFailedError
from tests import processes
from tests.worker.fleet import Fleet
from tests.worker.samples import checked, sample_rows


class FakeWorker:
    """A worker that ends when it is told to."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.last = 0  # the exit code after it was asked to leave
        self.asked = False

    def poll(self) -> int | None:
        return self.code

    def terminate(self) -> None:
        self.asked, self.code = True, self.last

    def kill(self) -> None:
        self.code = -9


class Machine:
    """A supervisor over workers that are none, and a clock that moves when it waits."""

    def __init__(self, count: int = 2) -> None:
        self.now = 0.0
        self.started: list[tuple[float, int]] = []
        self.workers: dict[int, FakeWorker] = {}
        self._script: Iterator[None] = iter(())
        self.supervisor = Supervisor(self._start, count, wait=self._wait, clock=lambda: self.now)

    def run(self, script: Callable[[], Iterator[None]]) -> None:
        """Run until the script ends; it goes on by one step each time the supervisor waits."""
        self._script = script()
        self.supervisor.run()

    def _start(self, number: int) -> FakeWorker:
        self.started.append((self.now, number))
        worker = self.workers[number] = FakeWorker()
        return worker

    def _wait(self, seconds: float) -> bool:
        self.now += seconds
        return next(self._script, self) is self

    def pass_time(self, seconds: float) -> Iterator[None]:
        end = self.now + seconds
        while self.now < end:
            yield


def test_a_worker_that_dies_is_started_again_and_the_others_are_left_alone() -> None:
    machine = Machine(3)

    def script() -> Iterator[None]:
        yield
        machine.workers[2].code = -9
        yield from machine.pass_time(3)

    machine.run(script)
    assert [number for _, number in machine.started] == [1, 2, 3, 2]
    assert all(worker.asked for worker in machine.workers.values())


def test_the_pauses_grow_and_a_worker_that_keeps_dying_ends_all() -> None:
    machine = Machine()

    def script() -> Iterator[None]:
        while True:
            if machine.workers[1].code is None:
                machine.workers[1].code = 3
            yield

    with pytest.raises(WorkersFailedError, match=f"worker 1 of 2 ended {MOST_FAILURES} times in a row"):
        machine.run(script)
    starts = [moment for moment, number in machine.started if number == 1]
    pauses = [after - before for before, after in itertools.pairwise(starts)]
    assert pauses == pytest.approx([1, 2, 4, 8], abs=3 * CHECK)
    assert machine.workers[2].asked


def test_a_worker_that_lived_long_has_as_many_tries_as_a_new_one() -> None:
    machine = Machine(1)

    def script() -> Iterator[None]:
        for _ in range(MOST_FAILURES + 2):
            yield from machine.pass_time(SETTLED + LONGEST_PAUSE)
            machine.workers[1].code = 3
            yield

    machine.run(script)
    assert len(machine.started) >= MOST_FAILURES + 2


def test_a_worker_that_is_refused_is_not_started_again() -> None:
    machine = Machine()

    def script() -> Iterator[None]:
        yield
        machine.workers[2].code = 2
        yield from machine.pass_time(60)

    with pytest.raises(WorkersFailedError, match="worker 2 of 2 was refused") as refused:
        machine.run(script)
    assert refused.value.code == 2
    assert len(machine.started) == 2
    assert machine.workers[1].asked


def test_a_worker_that_does_not_leave_in_good_order_is_an_error() -> None:
    machine = Machine()

    def script() -> Iterator[None]:
        yield
        machine.workers[2].last = 3

    with pytest.raises(StreamGuardError, match="worker 2 with 3"):
        machine.run(script)


def test_a_worker_that_is_asked_to_leave_while_it_starts_leaves_in_good_order() -> None:
    machine = Machine()

    def script() -> Iterator[None]:
        yield
        machine.workers[1].last = -signal.SIGTERM

    machine.run(script)
    assert machine.workers[1].asked


def test_each_worker_has_a_name_an_outbox_and_a_port_of_its_own(tmp_path: Path) -> None:
    settings = Settings(
        worker=WorkerSettings(instance="node-a"),
        serve=StatusSettings(port=9464),
        delivery=DeliverySettings(outbox=tmp_path / "out.db"),
    )
    assert own_options(2, settings) == ["--instance", "node-a-2"]
    assert own_variables(2, settings) == {
        "STREAM_GUARD_DELIVERY__OUTBOX": str(tmp_path / "out-2.db"),
        "STREAM_GUARD_SERVE__PORT": "9465",
    }
    assert own_options(1, Settings()) == []
    assert own_variables(1, Settings()) == {"STREAM_GUARD_DELIVERY__OUTBOX": "stream-guard-outbox-1.db"}
    with pytest.raises(SettingsError, match="as many ports"):
        check_ports(2, Settings(serve=StatusSettings(port=65535)))


def test_a_policy_that_is_wrong_ends_all_workers_with_the_code_of_a_wrong_policy(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: [{id: a, kind: nonsense}]", encoding="utf-8")
    command = ("worker", "kafka://127.0.0.1:9/events", "--policy", policy, "--alerts", "console")
    done = processes.run(*command, "--dead-letters", "127.0.0.1:9/dead", "--processes", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert b"was refused, as its last lines say; all workers are stopped" in done.stderr
    assert b"nonsense" in done.stderr


@pytest.mark.kafka
@pytest.mark.long
def test_one_of_two_workers_is_killed_and_no_alert_is_lost_or_extra(fleet: Fleet, policy: Path) -> None:
    rows = sample_rows(400)
    name = fleet.start(options=("--no-serve", "--processes", "2"))
    fleet.cluster.fill(fleet.events, rows[: len(rows) // 2])
    fleet.wait_until(lambda: fleet.log_of(name).count("a worker of group") == 2)
    supervisor = fleet.workers[name].pid
    (victim, *_) = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text(encoding="ascii").split()
    os.kill(int(victim), signal.SIGKILL)
    fleet.cluster.fill(fleet.events, rows[len(rows) // 2 :])
    fleet.wait_for(len(rows))
    assert "ended with exit code -9; it is started again in 1 s" in fleet.log_of(name)
    assert {alert["id"]: alert["data"]["rule_id"] for alert in fleet.sent()} == checked(rows, policy)
    fleet.stop(name)
