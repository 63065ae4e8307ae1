"""Dead letters of a real topic come back after a mistake is mended: judged once, in their sessions, and audited."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.kafka.cluster import Cluster, Row

pytestmark = pytest.mark.kafka

SESSIONS = 4
POLICY = """
rules:
  - {id: failing, kind: max_failed_calls, params: {tool: fetch, n: 2}}
  - {id: counted-twice, kind: max_failed_calls, params: {tool: fetch, n: 3}}
"""


def rows(sessions: int) -> list[Row]:
    """Calls as the run expects them, and their failures in an envelope that it was not told of; events have no ids."""
    found = []
    for session in (f"s{number}" for number in range(sessions)):
        for call in ("c1", "c2"):
            event: dict[str, Any] = {"session_id": session, "call_id": call, "tool": "fetch", "time": 1000.0}
            envelope = {
                "specversion": "1.0",
                "id": f"{session}-{call}",
                "source": "/agents",
                "type": "stream_guard.event",
            }
            result = {**event, "kind": "tool_result", "status": "error", "time": 1001.0}
            found.append(Row(json.dumps({**event, "kind": "tool_call"}).encode(), session.encode()))
            found.append(Row(json.dumps({**envelope, "data": result}).encode(), session.encode()))
    return found


def command(folder: Path, *words: object) -> Any:
    done = processes.run(*words, cwd=folder, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_letters_come_back_after_the_format_was_mended_and_are_judged_once(cluster: Cluster, tmp_path: Path) -> None:
    events, dead = cluster.create(3), cluster.create(1)
    cluster.fill(events, rows(SESSIONS))
    (tmp_path / "policy.yaml").write_text(POLICY)
    run = [
        "run",
        cluster.url(events),
        "--policy",
        "policy.yaml",
        "--checkpoint",
        "progress.db",
        "--no-serve",
    ]
    run += ["--dead-letters", cluster.url(dead), "--alerts", "jsonl:alerts.jsonl"]
    # Stopped, not ended: the end of the input would end the sessions.
    watching = processes.start(*run, "--follow", "--from-format", "native", cwd=tmp_path, stderr=subprocess.DEVNULL)
    while len(cluster.read(dead)) < 2 * SESSIONS:
        assert watching.poll() is None
    watching.send_signal(signal.SIGTERM)
    assert watching.wait() == 0
    assert not (tmp_path / "alerts.jsonl").exists() or not (tmp_path / "alerts.jsonl").read_bytes()

    listed = ["letters", "list", cluster.url(dead), "--format", "json"]
    letters = json.loads(command(tmp_path, *listed, "--topic", events, "--since", "1h").stdout)
    assert len(letters) == 2 * SESSIONS
    for leaving_out in (
        ["--topic", "another"],
        ["--until", "1h"],
        ["--reason", "a text that is not there"],
        ["--class", "oversize"],
    ):
        assert json.loads(command(tmp_path, *listed, *leaving_out).stdout) == []
    shown = json.loads(command(tmp_path, "letters", "show", cluster.url(dead), letters[0]["id"][:6]).stdout)
    assert json.loads(shown["value"])["data"]["status"] == "error"

    redrive = ["letters", "redrive", cluster.url(dead), "--history", "history.db", "--by", "ada"]
    assert f"{2 * SESSIONS} letters would go back" in command(tmp_path, *redrive, "--dry-run").stderr
    assert f"{2 * SESSIONS} letters went back" in command(tmp_path, *redrive).stderr
    assert f"{2 * SESSIONS} letters stay: they went back before" in command(tmp_path, *redrive).stderr
    command(tmp_path, *redrive, "--again")  # as a crash before the record of it would
    # What was told late counts for the next call.
    following = {
        name: {"kind": "tool_call", "session_id": name, "tool": "fetch", "time": 1002.0}
        for name in (f"s{number}" for number in range(SESSIONS))
    }
    cluster.fill(events, [Row(json.dumps(call).encode(), name.encode()) for name, call in following.items()])
    said = command(tmp_path, *run, "--no-follow", "--from-format", "auto").stderr
    alerts = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_bytes().splitlines()]
    found = sorted((alert["rule_id"], alert["session_id"]) for alert in alerts)
    assert found == [("failing", f"s{number}") for number in range(SESSIONS)], said

    audited = [
        json.loads(line) for line in command(tmp_path, "audit", "show", "--history", "history.db").stdout.splitlines()
    ]
    assert [record["what"] for record in audited] == ["redrive"] * 4 * SESSIONS
    assert {record["letter"] for record in audited} == {letter["id"] for letter in letters}
    assert {record["by"] for record in audited} == {"ada"}
    command(tmp_path, "audit", "verify", "--history", "history.db")
