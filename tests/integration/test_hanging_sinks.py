"""A sink that hangs costs neither a run nor a gate, and can be told to stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_guard.alerting.outbox import AlertOutbox
from stream_guard.alerting.routes import queue_name
from tests import plain_http, processes
from tests.process_server import ROOT

POLICY = "rules:\n  - {id: never, kind: no_call, params: {tool: drop}, then: block}\n"
INFRASTRUCTURE = 3


class Place:
    """A folder with a policy, and a plugin whose sinks hang."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.policy, self.seen, self.outbox = folder / "policy.yaml", folder / "seen", folder / "outbox.db"
        self.policy.write_text(POLICY)
        about = folder / "plugins" / "hanging-1.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hanging\nVersion: 1\n")
        (about / "entry_points.txt").write_text("[stream_guard]\nhanging = tests.integration.hanging_sinks\n")
        paths = [str(folder / "plugins"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        self.env = {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "STREAM_GUARD_DELIVERY__DRAIN": "1s",
            "STREAM_GUARD_DELIVERY__OUTBOX": str(self.outbox),
        }
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *command: object, **settings: str) -> subprocess.Popen[str]:
        env = self.env | {f"STREAM_GUARD_{name.upper()}": value for name, value in settings.items()}
        process: subprocess.Popen[str] = processes.start(
            *command, fresh=True, env=env, cwd=self.folder, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.started.append(process)
        return process

    def events(self, count: int) -> Path:
        file = self.folder / "events.jsonl"
        calls = (
            {"kind": "tool_call", "session_id": f"s{n}", "event_id": f"e{n}", "tool": "drop"} for n in range(count)
        )
        file.write_text("".join(json.dumps(one) + "\n" for one in calls))
        return file

    def wait_until_it_hangs(self) -> None:
        wait_until(self.seen.exists)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def wait_until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_whose_sink_hangs_ends_by_itself_and_says_how_many_alerts_wait_and_where(place: Place) -> None:
    command = ["run", place.events(3), "--policy", place.policy, "--alerts", f"hanging:{place.seen}"]
    process = place.start(*command, "--alerts", f"jsonl:{place.folder / 'alerts.jsonl'}", "--no-serve")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    name = queue_name(f"hanging:{place.seen}")
    assert f"3 alerts for {name} wait in {place.outbox} for the next start: stream-guard outbox list" in said
    assert f"hanging:{place.seen}: the sink did not close in 1 s and is left" in said
    assert len((place.folder / "alerts.jsonl").read_text().splitlines()) == 3, "the other sink has them"
    outbox = AlertOutbox(place.outbox)
    waiting = [one.alert.session_id for one in outbox.take(name, "waiting", 10)]
    outbox.close()
    assert waiting == ["s0", "s1", "s2"]


def test_a_run_whose_direct_sink_hangs_ends_by_itself_and_the_next_one_has_the_same_alerts(place: Place) -> None:
    checkpoint = place.folder / "progress.db"
    command = ["run", place.events(3), "--policy", place.policy, "--checkpoint", checkpoint, "--no-serve"]
    process = place.start(*command, "--alerts", f"hanging-direct:{place.seen}", delivery__timeout="1s")
    _, said = process.communicate(timeout=120)
    assert process.returncode == INFRASTRUCTURE, said
    assert f"hanging-direct:{place.seen}: the sink has not come back for 1 s (delivery.timeout is 1 s)" in said
    again = place.start(*command, "--alerts", f"jsonl:{place.folder / 'alerts.jsonl'}")
    again.communicate(timeout=120)
    assert again.returncode == 0
    alerts = [json.loads(line) for line in (place.folder / "alerts.jsonl").read_text().splitlines()]
    assert [one["alert_id"] for one in alerts] == place.seen.read_text().split()


@pytest.mark.parametrize("sink", ["hanging", "hanging-direct"])
def test_a_run_whose_sink_hangs_can_be_told_to_stop(place: Place, sink: str) -> None:
    command = ["run", place.events(3), "--policy", place.policy, "--follow", "--no-serve"]
    process = place.start(*command, "--alerts", f"{sink}:{place.seen}")
    place.wait_until_it_hangs()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)  # the limit of a hand-over is five minutes
    assert process.returncode == (0 if sink == "hanging" else INFRASTRUCTURE), said


@pytest.mark.parametrize("sink", ["hanging", "hanging-direct"])
def test_a_gate_answers_while_a_sink_hangs_and_can_be_told_to_stop(place: Place, sink: str) -> None:
    history = place.folder / "history.db"
    command = ["serve", "--policy", place.policy, "--port", "0", "--history", history]
    process = place.start(*command, "--alerts", f"{sink}:{place.seen}", api__budget="60")
    assert process.stderr is not None
    url = process.stderr.readline().removeprefix("listening at ").strip()

    def ask(number: int, tool: str) -> dict[str, Any]:
        asked = {"session_id": f"s{number}", "event_id": f"e{number}", "tool": tool, "args": {}}
        answer: dict[str, Any] = plain_http.post(f"{url}/v1/check", json=asked).json()
        return answer

    assert ask(0, "drop")["action"] == "block"
    place.wait_until_it_hangs()
    answers = [ask(number, "drop" if number % 2 else "read") for number in range(1, 41)]
    assert [one["action"] for one in answers] == ["block", "allow"] * 20
    assert all(one["judged"] for one in answers)
    assert plain_http.get(f"{url}/healthz").status_code == 200
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGTERM), said
    if sink == "hanging":
        assert f"21 alerts for {queue_name(f'hanging:{place.seen}')} wait in {place.outbox} for the next start" in said
    else:
        assert said.count("alerts were not delivered") == 21
