"""A run that follows its policy file, as an operator meets it: alerts, metrics and the log."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.request import urlopen

import pytest

from tests import processes

METRICS = re.compile(r"metrics at (http://\S+)/metrics")
POLICY = "rules: [{id: drop, kind: no_call, params: {tool: drop_table}, severity: %s}]\n"


class Run:
    """A run that follows a folder, with everything one can see of it."""

    def __init__(self, folder: Path) -> None:
        self.events, self.policy, self._written = folder / "events", folder / "policy.yaml", 0
        self.events.mkdir()
        self.policy.write_text(POLICY % "warning")
        command = ["run", self.events, "--policy", self.policy, "--alerts", "jsonl:-", "--log-format", "json"]
        self.process: subprocess.Popen[str] = processes.start(
            *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._watchdog = Timer(60, self.process.kill)
        self._watchdog.start()
        assert self.process.stderr is not None
        self.url = next(found[1] for line in self.process.stderr if (found := METRICS.match(line)))

    def call(self) -> dict[str, Any]:
        """Let an agent do what it must not, and return the alert about it."""
        self._written += 1
        event = {"kind": "tool_call", "session_id": "s", "event_id": str(self._written), "time": self._written}
        with (self.events / "a.jsonl").open("a") as file:
            file.write(json.dumps(event | {"tool": "drop_table"}) + "\n")
        assert self.process.stdout is not None
        alert: dict[str, Any] = json.loads(self.process.stdout.readline())
        return alert

    def wait_for(self, sample: str) -> None:
        """Return when a line is among the metrics."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with urlopen(f"{self.url}/metrics") as answer:
                if sample in answer.read().decode().splitlines():
                    return
            time.sleep(0.05)
        raise AssertionError(f"{sample} never came")

    def close(self) -> str:
        self.process.terminate()
        said = self.process.communicate(timeout=30)[1]
        self._watchdog.cancel()
        return said


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.close()


def test_a_changed_policy_judges_what_comes_next_and_says_so(run: Run) -> None:
    first = run.call()
    run.policy.write_text(POLICY % "critical")
    run.wait_for('stream_guard_policy_reloads_total{result="ok"} 1.0')
    second = run.call()
    assert (first["severity"], second["severity"]) == ("warning", "critical")
    assert [(alert["file"], alert["line"]) for alert in (first, second)] == [
        (str(run.events / "a.jsonl"), n) for n in (1, 2)
    ]
    assert first["policy_version"] != second["policy_version"]
    run.wait_for('stream_guard_findings_total{rule="drop",severity="warning"} 1.0')
    run.wait_for('stream_guard_findings_total{rule="drop",severity="critical"} 1.0')
    assert "2 records, 2 events, 2 findings" in run.close()


def test_a_bad_policy_changes_nothing_and_is_in_the_log_with_its_place(run: Run) -> None:
    first = run.call()
    run.policy.write_text("rules: [{id: drop, kind: no_cal, params: {tool: x}}]\n")
    run.wait_for('stream_guard_policy_reloads_total{result="failed"} 1.0')
    with urlopen(f"{run.url}/readyz") as answer:
        assert answer.status == 200, "the old policy is in force"
    assert run.call()["policy_version"] == first["policy_version"]
    logged = [json.loads(line) for line in run.close().splitlines() if line.startswith("{")]
    errors = [line["message"] for line in logged if line["level"] == "error"]
    assert f"policy {first['policy_version']} stays in force" in errors[0]
    assert any(f"{run.policy}:1:" in message and "no_call" in message for message in errors)
