"""Killed at any moment and started again: no alert is lost, and none is there twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from stream_guard.cli.demo import write_samples
from tests import processes

# About 50,000 events in every run, and 100,000.
SESSIONS = (3_350, pytest.param(6_700, marks=pytest.mark.slow))
KILLS = 50


def start(folder: Path, name: str, *, fresh: bool = False) -> subprocess.Popen[str]:
    """Start a run with its own checkpoint and alerts; it says on standard error when it is ready."""
    command = ["run", folder / "events.jsonl"]
    command += ["--policy", folder / "policy.yaml", "--alerts", f"jsonl:{folder / name}.alerts.jsonl"]
    command += ["--checkpoint", folder / f"{name}.checkpoint", "--dead-letters", folder / f"{name}.dead.jsonl"]
    settings = {"STREAM_GUARD_COMMIT__RECORDS": "700", "STREAM_GUARD_COMMIT__SECONDS": "0.05"}
    return processes.start(*command, stderr=subprocess.PIPE, text=True, env=settings, fresh=fresh)


def wait_until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    line = process.stderr.readline()
    assert "metrics at" in line, line + process.stderr.read()


def finish(process: subprocess.Popen[str]) -> str:
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def alert_ids(folder: Path, name: str) -> list[str]:
    return [json.loads(line)["alert_id"] for line in (folder / f"{name}.alerts.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module", params=SESSIONS)
def samples(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path_factory.mktemp("kill")
    events, _ = write_samples(folder, request.param)
    with events.open("a", encoding="utf-8") as file:
        file.write("this line is broken\n")
    process = start(folder, "whole", fresh=True)
    wait_until_ready(process)
    finish(process)
    return folder


@pytest.mark.long
def test_fifty_kills_lose_and_double_nothing(samples: Path) -> None:
    wanted = alert_ids(samples, "whole")
    assert len(wanted) == len(set(wanted)) > 1000
    dice = random.Random(50)
    kills = rounds = 0
    while kills < KILLS:
        rounds += 1
        name = f"round-{rounds}"
        while kills < KILLS:
            process = start(samples, name)
            wait_until_ready(process)
            time.sleep(dice.uniform(0, 0.15))  # the random moment
            process.send_signal(signal.SIGKILL)
            _, _ = process.communicate()
            if process.returncode == 0:
                break
            kills += 1
        process = start(samples, name)
        wait_until_ready(process)
        finish(process)
        found = Counter(alert_ids(samples, name))
        assert {alert: count for alert, count in found.items() if count > 1} == {}
        assert set(found) == set(wanted)
        assert len((samples / f"{name}.dead.jsonl").read_text().splitlines()) == 1


def test_a_stopped_run_goes_on_where_it_was(samples: Path) -> None:
    process = start(samples, "stopped")
    wait_until_ready(process)
    process.send_signal(signal.SIGTERM)
    finish(process)
    again = start(samples, "stopped")
    wait_until_ready(again)
    finish(again)
    assert sorted(alert_ids(samples, "stopped")) == sorted(alert_ids(samples, "whole"))
