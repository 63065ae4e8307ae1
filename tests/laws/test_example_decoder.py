"""A stranger's decoder is installed, listed, used by name, and keeps the laws."""

from __future__ import annotations

from pathlib import Path

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
LINES = """
{"id": "1", "ticket": "T-7", "at": 1769860800, "who": "customer", "text": "My parcel is gone."}
{"id": "2", "ticket": "T-7", "at": 1769860802, "who": "tool", "tool": "refund", "input": {"amount": 20}}
"""


def test_example_is_not_installed_with_the_project() -> None:
    assert "helpdesk" not in build_registry().decoders


def test_installed_example_is_listed_with_its_origin(installed: Path) -> None:
    plugin = listed(installed)["example_decoder"]
    assert plugin["distribution"] == "stream-guard-example-decoder"
    assert plugin["provides"] == {"decoders": ["helpdesk"]}


def test_format_of_the_example_works_on_the_command_line(installed: Path, tmp_path: Path) -> None:
    policy, log = tmp_path / "policy.yaml", tmp_path / "desk.jsonl"
    policy.write_text(POLICY)
    log.write_text(LINES)
    command = ["-m", "stream_guard.cli", "run", str(log), "--policy", str(policy), "--from-format", "helpdesk"]
    assert "money-needs-a-person session=T-7" in run([*command, "--no-serve"], installed)


@pytest.mark.long
def test_example_passes_its_own_tests(installed: Path, root: Path) -> None:
    assert "3 passed" in run_tests("example_decoder", root, installed)


def test_our_decoders_have_the_same_base_type_but_the_compiled_one() -> None:
    # A compiled class need not derive: the base type is a protocol.
    others = {name for name, kind in build_registry().decoders.items() if sg.Decoder not in kind.__mro__}
    assert others == {"native"}
