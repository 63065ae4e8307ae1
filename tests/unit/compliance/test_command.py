"""The command line of compliance, as a user meets it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stream_guard.cli.app import app
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

PROMPT = "Never call drop_table. Keep answers under 100 words. Be friendly."


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["compliance", *map(str, arguments)])


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def test_violation_exits_1_and_shows_the_evidence(tmp_path: Path) -> None:
    trace = write(tmp_path, "t.json", json.dumps([{"type": "tool_call", "name": "drop_table", "args": {}}]))
    done = run("check", write(tmp_path, "p.txt", PROMPT), trace)
    assert done.exit_code == 1
    assert "CRITICAL forbid-tool-drop-table (event 0)" in done.stdout
    assert "not checked: Be friendly. (" in done.stdout
    lines = done.stdout.splitlines()
    assert lines[1] == "  3 sentences demand something: 1 checked, 2 not checked"
    assert lines[-1] == "  in all, 0% is kept of what is checked, which is 33% of what is demanded"


def test_open_rule_exits_4_unless_that_is_accepted(tmp_path: Path) -> None:
    prompt = write(tmp_path, "p.txt", PROMPT)
    trace = write(tmp_path, "t.jsonl", '{"type": "agent_message", "content": "hi"}\n')
    assert run("check", prompt, trace).exit_code == 4
    assert run("check", prompt, trace, "--allow-inconclusive").exit_code == 0


def test_kept_prompt_exits_0(tmp_path: Path) -> None:
    prompt = write(tmp_path, "p.txt", "Never call drop_table.")
    trace = write(tmp_path, "t.jsonl", '{"type": "tool_call", "name": "get_order"}\n')
    assert run("check", prompt, trace).exit_code == 0


def test_native_events_are_a_trace_for_each_session(tmp_path: Path) -> None:
    lines = [
        {"kind": "tool_call", "session_id": "s1", "tool": "get_order"},
        {"kind": "tool_call", "session_id": "s2", "tool": "drop_table"},
    ]
    trace = write(tmp_path, "t.jsonl", "\n".join(map(json.dumps, lines)))
    done = run("check", write(tmp_path, "p.txt", "Never call drop_table."), trace, "--format", "json")
    assert [(one["trace"].split(": ")[1], one["verdict"]) for one in json.loads(done.stdout)] == [
        ("s1", "satisfied"),
        ("s2", "violated"),
    ]


def test_extract_writes_a_policy_that_loads_and_says_what_is_not_in_it(tmp_path: Path) -> None:
    done = run("extract", write(tmp_path, "p.txt", PROMPT))
    assert done.exit_code == 0
    policy = load_policy(done.stdout, build_registry(), file="extracted.yaml")
    assert [rule.reason for rule in policy.rules] == ["Never call drop_table.", "Keep answers under 100 words."]
    assert "not in the policy: Be friendly." in done.stderr


def test_prompt_without_a_rule_for_machines_gives_no_policy(tmp_path: Path) -> None:
    done = run("extract", write(tmp_path, "p.txt", "Be friendly."))
    assert (done.exit_code, done.stdout) == (4, "")


@pytest.mark.parametrize("text", ["{broken", "3", '{"type": "user_message"}\n{broken'])
def test_trace_that_is_no_trace_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    trace = write(tmp_path, "t.json", text)
    done = run("check", write(tmp_path, "p.txt", PROMPT), trace)
    assert done.exit_code != 0
    assert "t.json" in str(done.exception)


def test_file_that_is_not_there_exits_2(tmp_path: Path) -> None:
    done = run("extract", tmp_path / "nothing.txt")
    assert done.exit_code == 2
    assert "nothing.txt: cannot be read" in done.stderr


def test_tools_of_a_file_close_the_catalogue(tmp_path: Path) -> None:
    prompt = write(tmp_path, "p.txt", "Never call drop_table. Never call file_path.")
    for form in ('["drop_table"]', '{"tools": [{"function": {"name": "drop_table"}}]}'):
        done = run("extract", prompt, "--tools", write(tmp_path, "tools.json", form))
        assert "rules: 1, left to judgement: 1" in done.stderr


@pytest.mark.parametrize("text", ["{broken", "3", "[]", '{"tools": {}}', "[3]"])
def test_file_without_tools_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    done = run("extract", write(tmp_path, "p.txt", PROMPT), "--tools", write(tmp_path, "tools.json", text))
    assert done.exit_code != 0
    assert "tools.json" in str(done.exception)


def test_archives_and_other_formats_are_read_session_by_session_with_totals(tmp_path: Path) -> None:
    def chat(tool: str, said: str) -> str:
        call = {"id": "c", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        return json.dumps(
            {"messages": [{"role": "user", "content": said}, {"role": "assistant", "tool_calls": [call]}]},
        )

    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(f"{chat('drop_table', 'one')}\n{chat('look', 'two')}\n".encode()))
    (folder / "b.jsonl").write_text(f"{chat('drop_table', 'three')}\n")
    prompt = write(tmp_path, "p.txt", "Never call drop_table.")
    done = run("check", prompt, folder)
    assert done.exit_code == 1
    assert "3 sessions: 2 violated, 1 satisfied" in done.stdout
    assert "  forbid-tool-drop-table is violated in 2 of 3 sessions" in done.stdout
    packed = run("check", prompt, folder / "a.jsonl.gz", "--from-format", "openai-chat", "--format", "json")
    assert sorted(result["verdict"] for result in json.loads(packed.stdout)) == ["satisfied", "violated"]


def test_a_record_that_cannot_be_read_leaves_the_check_open(tmp_path: Path) -> None:
    prompt = write(tmp_path, "p.txt", "Never call drop_table.")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"what": "is this"}\n'))
    done = run("check", prompt, tmp_path / "a.jsonl.gz")
    assert done.exit_code == 4
    assert "no format is known by this shape" in done.stderr
