"""A stranger's sink is installed, listed, opened by name, and keeps the laws."""

from __future__ import annotations

from pathlib import Path

import stream_guard as sg
from stream_guard.registry import build_registry
from tests.laws.examples import listed, run, run_tests

PROGRAM = """
from stream_guard.registry import build_registry
from stream_guard.running.assembly import open_sink
from stream_guard.settings import Settings
from stream_guard import SinkError

try:
    open_sink("webhook:alerts.example.com", build_registry(), Settings())
except SinkError as error:
    print(error)
print(type(open_sink("webhook:https://alerts.example.com/in", build_registry(), Settings())).__name__)
"""


def test_example_is_not_installed_with_the_project() -> None:
    assert "webhook" not in build_registry().sinks


def test_installed_example_is_listed_with_its_origin(installed: Path) -> None:
    plugin = listed(installed)["example_sink"]
    assert plugin["distribution"] == "stream-guard-example-sink"
    assert plugin["provides"] == {"sinks": ["webhook"]}


def test_sink_of_the_example_is_opened_by_its_name(installed: Path) -> None:
    refusal, opened = run(["-c", PROGRAM], installed).splitlines()
    assert refusal == "write webhook:https://host/path; 'alerts.example.com' is no address"
    assert opened == "WebhookSink"


def test_example_passes_its_own_tests(installed: Path, root: Path) -> None:
    assert "5 passed" in run_tests("example_sink", root, installed)


def test_our_sinks_derive_from_the_same_base_type() -> None:
    assert all(sg.Sink in kind.__mro__ for kind in build_registry().sinks.values())
