"""The front door: one import and one line for each way to run, and a public surface that changes only on purpose."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import stream_guard as sg

LISTED = Path(__file__).parents[1] / "golden" / "public_names.txt"
PUBLIC = (
    "stream_guard",
    "stream_guard.commands",
    "stream_guard.documents",
    "stream_guard.reports",
    "stream_guard.testing",
)
POLICY = "rules: [{id: no-refunds, kind: no_call, params: {tool: issue_refund}, severity: critical, then: block}]"
CALL = '{"kind": "tool_call", "session_id": "s1", "event_id": "e1", "tool": "issue_refund"}'


def test_public_surface_is_the_listed_one() -> None:
    names = [f"{module}.{name}" for module in PUBLIC for name in sorted(importlib.import_module(module).__all__)]
    assert names == LISTED.read_text().splitlines(), "write the list anew if the change is meant, and the changelog"


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_there(module: str) -> None:
    public = importlib.import_module(module)
    assert [name for name in public.__all__ if not hasattr(public, name)] == []


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'gard'"):
        _ = sg.gard  # type: ignore[attr-defined]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "events.jsonl").write_text(CALL + "\n")
    return tmp_path


def test_the_three_ways_need_one_import_and_open_no_port(folder: Path) -> None:
    program = """
import sys
sys.addaudithook(lambda event, _: sys.exit("a port was opened") if event == "socket.bind" else None)
import stream_guard as sg
policy = sg.load_policy("policy.yaml")
call = sg.ToolCall(session_id="s1", event_id="e1", tool="issue_refund")
print(sg.Guard(policy).check(call))
print(*sg.evaluate([call], policy))
print(*sg.evaluate(sg.read_events("events.jsonl"), policy))
print(sg.run("events.jsonl", policy, alerts=["jsonl:alerts.jsonl"], checkpoint="progress.db").findings)
print(sg.run("events.jsonl", policy, alerts=["jsonl:alerts.jsonl"], checkpoint="progress.db").findings)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    finding = "critical no-refunds: issue_refund was called"
    assert done.stdout.splitlines() == ["block: issue_refund was called", finding, finding, "1", "0"]
    assert len((folder / "alerts.jsonl").read_text().splitlines()) == 1


def test_decision_is_printed_as_its_action_and_reason() -> None:
    policy = sg.parse_policy(POLICY)
    guard = sg.Guard(policy)
    assert str(guard.check(sg.ToolCall(session_id="s", tool="look"))) == "allow"
    assert str(guard.check(sg.ToolCall(session_id="s", tool="issue_refund"))) == "block: issue_refund was called"


def test_unreadable_records_are_an_error_unless_they_are_kept(folder: Path) -> None:
    events = folder / "events.jsonl"
    events.write_text("not JSON\n" + CALL + "\n")
    with pytest.raises(sg.SourceError, match="1 records could not be read: 1 x"):
        sg.evaluate(sg.read_events(events), folder / "policy.yaml")
    kept = folder / "dead.jsonl"
    findings = sg.evaluate(sg.read_events(events, dead_letters=kept), folder / "policy.yaml")
    assert [finding.rule_id for finding in findings] == ["no-refunds"]
    assert len(kept.read_text().splitlines()) == 1


def test_recorded_events_are_read_once(folder: Path) -> None:
    recorded = sg.read_events(folder / "events.jsonl")
    assert len(list(recorded)) == 1
    with pytest.raises(sg.SourceError, match="were read before; read the recording anew"):
        list(recorded)


def test_lateness_of_a_format_holds_for_library_users_too(tmp_path: Path) -> None:
    """Spans are sent when they end: the one that happened first may come last, and is judged in its place."""
    policy = sg.parse_policy("rules: [{id: r, kind: must_call_before, params: {first: look, second: pay}}]")
    recording = tmp_path / "spans.jsonl"
    recording.write_text("".join(_span(tool, at) + "\n" for tool, at in (("pay", 3), ("look", 1))))
    assert sg.evaluate(sg.read_events(recording, form="otlp-json"), policy) == []


def _span(tool: str, at: int) -> str:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.conversation.id": "c1",
    }
    span = {
        "traceId": f"{7:032x}",
        "spanId": f"{at:016x}",
        "name": "execute_tool",
        "startTimeUnixNano": str((1_700_000_000 + at) * 10**9),
        "endTimeUnixNano": str((1_700_000_000 + at) * 10**9),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
