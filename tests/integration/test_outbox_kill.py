"""Processes that are killed while a receiver is away: the next one sends what they found, once."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import plain_http, processes
from tests.http_end import HttpEnd, Reply

POLICY = """
rules:
  - {id: no-wipe, kind: no_call, params: {tool: wipe}, then: block, severity: critical}
  - {id: ask, kind: no_call, params: {tool: pay}, then: pause}
"""
SESSIONS = 150


@pytest.fixture
def end() -> Iterator[HttpEnd]:
    with HttpEnd() as made:
        made.reply = Reply(503)
        yield made


@pytest.fixture
def folder(tmp_path: Path, end: HttpEnd) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY)
    calls = [
        {
            "kind": "tool_call",
            "session_id": f"s{number}",
            "event_id": f"e{number}",
            "time": 1e9 + number,
            "tool": "wipe",
        }
        for number in range(SESSIONS)
    ]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(call) + "\n" for call in calls))
    secret = f"whsec_{base64.b64encode(bytes(32)).decode()}"
    route = {"to": f"webhook:{end.url}", "secret": secret, "flood": 0}
    settings = {"delivery": {"routes": {"hook": route}}, "api": {"port": 0}, "commit": {"records": 10}}
    (tmp_path / "settings.yaml").write_text(json.dumps(settings))
    return tmp_path


def start(folder: Path, *command: str) -> subprocess.Popen[str]:
    options = ["--policy", "policy.yaml", "--settings", "settings.yaml"]
    return processes.start(*command, *options, cwd=folder, stderr=subprocess.PIPE, text=True)


def eventually(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.02)


def arrived(end: HttpEnd) -> Counter[str]:
    return Counter(request.json["data"]["session_id"] for request in list(end.requests) if request.body)


def test_a_run_that_is_killed_while_its_receiver_is_away_loses_and_doubles_nothing(folder: Path, end: HttpEnd) -> None:
    command = ("run", "events.jsonl", "--checkpoint", "progress.db", "--no-serve", "--alerts", "jsonl:alerts.jsonl")
    for wanted in (1, 2):  # killed once in the middle of it, and once when all of it is in the outbox
        process = start(folder, *command, "--follow")
        eventually(lambda wanted=wanted: len(end.requests) >= wanted)  # type: ignore[misc]  # bound at once
        process.send_signal(signal.SIGKILL)
        process.communicate()
    end.requests.clear()
    end.reply = Reply()
    process = start(folder, *command)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert arrived(end) == dict.fromkeys((f"s{number}" for number in range(SESSIONS)), 1)


def test_a_server_that_is_killed_while_its_receiver_is_away_loses_no_answer_s_alert(folder: Path, end: HttpEnd) -> None:
    process, url = serve(folder)
    for number, tool in enumerate(["wipe", "pay"]):
        attempt: dict[str, Any] = {"session_id": f"s{number}", "event_id": f"e{number}", "tool": tool, "args": {}}
        assert plain_http.post(f"{url}/v1/check", json=attempt).json()["action"] in {"block", "pause"}
    process.send_signal(signal.SIGKILL)
    process.communicate()
    end.requests.clear()
    end.reply = Reply()
    process, _ = serve(folder)
    try:
        eventually(lambda: len(end.requests) >= 3)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    kinds = Counter(request.json["data"]["kind"] for request in end.requests)
    assert kinds == {"no_call": 2, "stream_guard_review": 1}


def serve(folder: Path) -> tuple[subprocess.Popen[str], str]:
    process = start(folder, "serve", "--history", "history.db")
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"listening at (\S+)", line):
            return process, found[1]
    raise AssertionError("the server did not start")
