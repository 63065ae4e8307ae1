"""The broker that tests and developers start: it answers, survives being killed, and leaves nothing behind."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.broker import Broker, answers
from tests.kafka.cluster import Cluster, Row
from tests.kafka.fixtures import require_broker

pytestmark = pytest.mark.kafka


@pytest.mark.long
def test_a_killed_broker_comes_back_at_its_address_with_what_it_had(own_broker: Broker) -> None:
    cluster = Cluster(own_broker.address())
    topic = cluster.create(partitions=2)
    cluster.fill(topic, [Row(str(number).encode()) for number in range(100)])
    own_broker.kill()
    assert not answers(own_broker.address())
    own_broker.start()
    assert sorted(int(record.value) for record in cluster.read(topic)) == list(range(100))


def test_the_command_starts_one_that_stays_and_stops_it_by_its_process_id(tmp_path: Path, root: Path) -> None:
    require_broker()
    folder = tmp_path / "broker"

    def command(word: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "tests.kafka.broker", word, "--folder", str(folder)]
        return subprocess.run(line, cwd=root, capture_output=True, text=True, check=False)

    started = command("start")
    assert started.returncode == 0, started.stderr
    address = started.stdout.strip()
    try:
        assert answers(address)
        assert "runs already" in command("start").stderr
    finally:
        stopped = command("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert not answers(address)
    assert not folder.exists()
    assert "no broker" in command("stop").stderr


def test_a_broker_does_not_outlive_a_test_run_that_was_killed(tmp_path: Path, root: Path) -> None:
    require_broker()
    program = (
        "import sys, time; from pathlib import Path; from tests.kafka.broker import Broker\n"
        "broker = Broker(Path(sys.argv[1])); broker.format(); broker.start()\n"
        "print(broker.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "broker")], cwd=root, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        broker = os.pidfd_open(int(run.stdout.readline()))
        run.kill()
    ended, _, _ = select.select([broker], [], [], 30)
    os.close(broker)
    assert ended
    Broker(tmp_path / "broker").remove()  # what a killed run leaves
