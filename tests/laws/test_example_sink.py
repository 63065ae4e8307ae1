"""A stranger's sink is installed, listed, used by name, and keeps the laws."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

import stream_guard as sg
from stream_guard.registry import build_registry
from tests.laws.examples import listed, run, run_tests

POLICY = """
rules:
  - id: money-needs-a-person
    kind: no_call
    params: {tool: refund}
"""
EVENT = {"kind": "tool_call", "session_id": "s1", "event_id": "e1", "tool": "refund", "args": {"amount": 20}}


class Receiver(BaseHTTPRequestHandler):
    """Keeps what is posted."""

    bodies: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/in"
        server.shutdown()
        thread.join()


def test_example_is_not_installed_with_the_project() -> None:
    assert "post" not in build_registry().sinks


def test_installed_example_is_listed_with_its_origin(installed: Path) -> None:
    plugin = listed(installed)["example_sink"]
    assert plugin["distribution"] == "stream-guard-example-sink"
    assert plugin["provides"] == {"sinks": ["post"]}


def test_sink_of_the_example_gets_the_alerts_of_a_run(installed: Path, tmp_path: Path, address: str) -> None:
    policy, events = tmp_path / "policy.yaml", tmp_path / "events.jsonl"
    policy.write_text(POLICY)
    events.write_text(json.dumps(EVENT) + "\n")
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"delivery: {{outbox: {tmp_path / 'outbox.db'}}}")
    command = ["-m", "stream_guard.cli", "run", str(events), "--policy", str(policy), "--no-serve"]
    run([*command, "--alerts", f"post:{address}", "--settings", str(settings)], installed)
    [alerts] = [json.loads(body) for body in Receiver.bodies]
    assert [alert["rule_id"] for alert in alerts] == ["money-needs-a-person"]


@pytest.mark.long
def test_example_passes_its_own_tests(installed: Path, root: Path) -> None:
    assert "5 passed" in run_tests("example_sink", root, installed)


def test_our_sinks_derive_from_the_same_base_type() -> None:
    assert all(sg.Sink in kind.__mro__ for kind in build_registry().sinks.values())
