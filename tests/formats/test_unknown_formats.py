"""A recording of no known format: convert says what it looks like, and the program that it prints converts it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import stream_guard as sg
from stream_guard.cli.app import app
from stream_guard.commands import INCONCLUSIVE
from stream_guard.ports import Record
from tests.formats.test_corpus import DECODERS

BEGIN = "import gzip"

RUN = {
    "run_id": "r1",
    "log": [
        {"who": "customer", "said": "Refund A-1, please.", "ts": "2026-01-05T08:00:00Z"},
        {"who": "bot", "tool": "lookup_order", "with": {"order": "A-1"}, "got": "paid", "ts": "2026-01-05T08:00:01Z"},
        {
            "who": "bot",
            "tool": "refund",
            "with": {"order": "A-1", "amount": 20},
            "got": "no such account",
            "error": True,
        },
        {"who": "bot", "said": "That did not work."},
    ],
}
STEPS = [
    {"conversation": "c1", "event": "user_message", "body": "Refund A-1, please.", "time": 1767600000},
    {"conversation": "c1", "event": "tool_call", "call": {"function": "lookup_order", "params": {"order": "A-1"}}},
    {"conversation": "c1", "event": "tool_result", "body": "paid", "ok": True},
    {
        "conversation": "c1",
        "event": "tool_call",
        "call": {"function": "refund", "params": {"order": "A-1", "amount": 20}},
    },
    {"conversation": "c1", "event": "tool_result", "body": "no such account", "ok": False},
    {"conversation": "c1", "event": "answer", "body": "That did not work."},
]
PARALLEL = {
    "meta": {"threadId": "t1"},
    "data": {
        "turns": [
            {"author": "human", "text": "Refund A-1, please."},
            {
                "author": "agent",
                "actions": [
                    {"action": "lookup_order", "args": {"order": "A-1"}, "output": "paid"},
                    {
                        "action": "refund",
                        "args": json.dumps({"order": "A-1", "amount": 20}),
                        "output": "no such account",
                        "success": False,
                    },
                ],
            },
            {"author": "agent", "text": "That did not work."},
        ]
    },
}
NESTED = [
    {"type": "text", "sessionID": "n1", "role": "user", "part": {"text": "Refund A-1, please."}},
    {
        "type": "tool_use",
        "sessionID": "n1",
        "part": {"tool": "lookup_order", "state": {"input": {"order": "A-1"}, "output": "paid"}},
    },
    {
        "type": "tool_use",
        "sessionID": "n1",
        "part": {
            "tool": "refund",
            "state": {"input": {"order": "A-1", "amount": 20}, "output": "no such account", "error": "yes"},
        },
    },
    {"type": "text", "sessionID": "n1", "role": "model", "part": {"text": "That did not work."}},
]
COMMANDS = {
    "sessionId": "g1",
    "chat": [
        {"from": "user", "content": "Refund A-1, please."},
        {
            "from": "bot",
            "toolCalls": [
                {"name": "lookup_order", "args": {"order": "A-1"}, "result": "paid", "ok": True},
                {"name": "refund", "args": {"order": "A-1", "amount": 20}, "result": "no such account", "ok": False},
            ],
        },
        {"from": "bot", "content": "That did not work."},
    ],
}
HOSTILE = {
    "x');import os;os._exit(9)#": "1",
    "steps\n": [{"tool": "lookup_order", "args": {"order": "A-1"}, "'+exit()+'": "\x1b[2J", "result": "paid"}],
}


def lines(*values: Any) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def read(file: Path) -> list[sg.Event]:
    decoder = DECODERS["native"]()
    return [event for line in file.read_bytes().splitlines() for event in decoder.decode(Record(line))]


def convert(file: Path) -> Path:
    """Ask for the program, run it, and return the file that it wrote."""
    asked = CliRunner().invoke(app, ["convert", str(file)])
    assert asked.exit_code == INCONCLUSIVE
    program = file.parent / "to_events.py"
    written = asked.output[asked.output.index(BEGIN) :]
    program.write_text(written[: written.rindex("\n", 0, written.index(" records, "))])
    done = subprocess.run([sys.executable, str(program), str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    events = file.parent / "events.jsonl"
    events.write_text(done.stdout)
    return events


@pytest.mark.parametrize(
    ("name", "text", "session"),
    ids=lambda value: value if str(value).startswith(("run", "steps", "parallel", "nested", "commands")) else "",
    argvalues=[
        ("runs.jsonl", lines(RUN), "r1"),
        ("run.json", json.dumps(RUN, indent=2), "r1"),
        ("steps.jsonl", lines(*STEPS), "c1"),
        ("steps.json", json.dumps(STEPS, indent=2), "c1"),
        ("parallel.json", json.dumps(PARALLEL), "t1"),
        ("nested.jsonl", lines(*NESTED), "n1"),
        ("commands.json", json.dumps(COMMANDS), "g1"),
        ("runs.jsonl.gz", lines(RUN), "r1"),
    ],
)
def test_the_printed_program_makes_events_with_every_call_and_result(
    name: str, text: str, session: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    events = read(convert(file))
    calls = [event for event in events if isinstance(event, sg.ToolCall)]
    results = {event.call_id: event for event in events if isinstance(event, sg.ToolResult)}
    assert [(call.tool, call.args) for call in calls] == [
        ("lookup_order", {"order": "A-1"}),
        ("refund", {"order": "A-1", "amount": 20}),
    ]
    assert [(results[call.call_id].output, results[call.call_id].status) for call in calls] == [
        ("paid", "ok"),
        ("no such account", "error"),
    ]
    assert [event.text for event in events if isinstance(event, sg.UserMessage)] == ["Refund A-1, please."]
    said = [event.response["content"][0]["text"] for event in events if isinstance(event, sg.Turn)]
    assert said == ["That did not work."]
    assert {event.session_id for event in events} == {session}


def test_names_of_fields_never_become_code(tmp_path: Path) -> None:
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(HOSTILE))
    [call, result] = read(convert(file))
    assert isinstance(call, sg.ToolCall)
    assert (call.tool, call.args) == ("lookup_order", {"order": "A-1"})
    assert isinstance(result, sg.ToolResult)
    assert result.output == "paid"


def test_what_a_file_looks_like_is_said_and_shown_safely(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(HOSTILE))
    asked = CliRunner().invoke(app, ["convert", str(file)])
    assert "no format is known by its shape, an object with" in caplog.text
    assert "'steps\\n' (a list of 1 of objects with 'tool' (a string)" in asked.output
    assert "\x1b" not in asked.output + caplog.text


@pytest.mark.parametrize("data", [{"temperature": 21.5, "place": 7}, [1, 2, 3], "text", {"a": {"b": {"c": []}}}])
def test_what_has_no_steps_is_only_described(data: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "weather.json"
    file.write_text(json.dumps(data))
    asked = CliRunner().invoke(app, ["convert", str(file)])
    assert asked.exit_code == INCONCLUSIVE
    assert BEGIN not in asked.output
    assert "no format is known by its shape" in caplog.text


def test_a_file_of_a_known_format_with_an_odd_record_gets_no_program(tmp_path: Path) -> None:
    file = tmp_path / "mixed.jsonl"
    file.write_text(lines({"messages": [{"role": "user", "content": "hello"}]}, RUN))
    assert BEGIN not in CliRunner().invoke(app, ["convert", str(file)]).output
