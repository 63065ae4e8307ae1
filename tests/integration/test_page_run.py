"""The page beside a run: a real process, its events, its alerts, and its end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path

from tests import plain_http, processes

POLICY = "rules: [{id: no-wipe, kind: no_call, params: {tool: wipe}, severity: critical}]"


def event(number: int, tool: str) -> str:
    call = {"kind": "tool_call", "session_id": "s1", "event_id": f"e{number}", "tool": tool, "time": time.time()}
    return json.dumps(call) + "\n"


def test_a_run_shows_its_alerts_and_sessions_and_ends_when_told(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    source = tmp_path / "events.jsonl"
    source.write_text(event(1, "read"))
    variables = {"STREAM_GUARD_PAGE__PORT": "0", "STREAM_GUARD_HISTORY__URL": str(tmp_path / "history.db")}
    command = ["run", source, "--follow", "--policy", tmp_path / "policy.yaml", "--page", "--no-serve"]
    command += ["-a", f"jsonl:{tmp_path / 'alerts.jsonl'}"]
    process = processes.start(*command, stderr=subprocess.PIPE, text=True, env=variables)
    try:
        assert process.stderr is not None
        found = next(found for line in process.stderr if (found := re.search(r"page at (http://\S+)", line)))
        with source.open("a") as file:
            file.write(event(2, "wipe"))
        deadline, listed = time.monotonic() + 20, ""
        while "no-wipe" not in listed and time.monotonic() < deadline:
            listed = plain_http.get(found.group(1)).text
            time.sleep(0.1)
        assert "wipe was called" in listed
        session = ""
        while "e2" not in session and time.monotonic() < deadline:
            session = plain_http.get(f"{found.group(1)}sessions/s1").text
            time.sleep(0.1)
        assert "Call <code><bdi>wipe" in session
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
