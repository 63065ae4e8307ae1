"""A real Prometheus, as the compose file sets it up: it scrapes the guard, and wakes somebody when that is gone."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

from tests import processes
from tests.monitoring import deployed_config, eventually, on_call, running_alertmanager, running_prometheus

POLICY = "rules: [{id: no-wipe, kind: no_call, params: {tool: wipe}, severity: critical}]"


def test_prometheus_scrapes_a_run_and_somebody_learns_of_a_critical_finding_and_of_its_end(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    events = tmp_path / "events.jsonl"
    events.write_text(call(1, "read"))
    command = ["run", events, "--policy", tmp_path / "policy.yaml", "--follow", "-a", f"jsonl:{tmp_path / 'alerts'}"]
    guard = processes.start(*command, stderr=subprocess.PIPE, text=True)
    assert guard.stderr is not None
    try:
        found = next(found for line in guard.stderr if (found := re.match(r"metrics at http://(\S+)/metrics", line)))
        with (
            on_call() as (url, told),
            running_alertmanager(tmp_path, deployed_config(url)) as manager,
            running_prometheus(tmp_path, found[1], manager.url.removeprefix("http://")) as prometheus,
        ):
            eventually(lambda: prometheus.query('up{job="stream_guard"}') == {"": 1.0})
            eventually(lambda: prometheus.query("stream_guard_events_total") != {})
            with events.open("a") as file:
                file.write(call(2, "wipe"))
            eventually(lambda: prometheus.query("stream_guard_findings_total > 0") == {"no-wipe": 1.0})
            assert any("StreamGuardFindsCritical" in line for line in told)
            eventually(lambda: prometheus.health() == {"ok"})
            guard.kill()
            assert any("StreamGuardDown" in line for line in told)
    finally:
        guard.kill()
        guard.communicate()


def call(number: int, tool: str) -> str:
    event = {"kind": "tool_call", "session_id": "s1", "event_id": f"e{number}", "tool": tool, "time": time.time()}
    return json.dumps(event) + "\n"
