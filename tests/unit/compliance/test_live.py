"""Prompts in the telemetry: extracted once for each version, and held against the sessions that carry them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stream_guard_compliance.live import MOST_HELD, PromptWatch
from stream_guard_compliance.prompts_in_turns import declared_tools, prompt_of
from typer.testing import CliRunner, Result

import stream_guard as sg
from stream_guard.cli.app import app
from stream_guard.registry import build_registry

REGISTRY = build_registry()
PROMPT = "Never call wipe_disk. Call check_user before pay_bill. Be kind."


def turn(session: str = "s", prompt: Any = PROMPT, agent: str = "", text: str = "Hello!") -> sg.Turn:
    request = {"system": prompt} if prompt else None
    return sg.Turn(
        session_id=session, agent=agent, request=request, response={"content": [{"type": "text", "text": text}]}
    )


def call(tool: str, session: str = "s", agent: str = "") -> sg.ToolCall:
    return sg.ToolCall(session_id=session, tool=tool, agent=agent)


def found(watch: PromptWatch, *events: sg.Event) -> list[tuple[str, str]]:
    return [(one.session_id, one.kind) for event in events for one in watch.feed(event)]


def test_violation_comes_with_the_event_that_is_wrong() -> None:
    watch = PromptWatch(REGISTRY)
    assert found(watch, turn(), call("read_page")) == []
    assert found(watch, call("wipe_disk")) == [("s", "forbid_tool")]
    assert found(watch, call("pay_bill")) == [("s", "order")]


def test_each_version_is_extracted_once_however_many_sessions_carry_it() -> None:
    watch = PromptWatch(REGISTRY)
    for number in range(20):
        found(watch, turn(f"s{number}"), turn(f"s{number}", prompt=f"{PROMPT} Be brief." if number % 2 else PROMPT))
    assert len(watch.versions) == 2


def test_sessions_and_agents_are_held_against_their_own_prompt_alone() -> None:
    watch = PromptWatch(REGISTRY)
    other = "Never call read_page."
    assert found(watch, turn("a"), turn("b", prompt=other), call("read_page", "a"), call("wipe_disk", "b")) == []
    assert found(watch, call("wipe_disk", "a"), call("read_page", "b")) == [("a", "forbid_tool"), ("b", "forbid_tool")]
    assert found(watch, turn("c", agent="x"), turn("c", prompt=other, agent="y"), call("read_page", "c", "x")) == []
    assert found(watch, call("read_page", "c", "y")) == [("c", "forbid_tool")]


def test_events_before_the_prompt_are_judged_when_it_comes() -> None:
    watch = PromptWatch(REGISTRY)
    assert found(watch, call("wipe_disk"), turn()) == [("s", "forbid_tool")]


def test_session_without_a_prompt_is_counted_and_its_memory_bounded() -> None:
    watch = PromptWatch(REGISTRY)
    for _ in range(MOST_HELD + 5):
        watch.feed(call("wipe_disk"))
    assert watch.feed(turn()) != []
    assert watch.finish() == []
    assert watch.without_prompt == {"s"}


def test_duty_is_judged_at_the_end_of_the_session() -> None:
    watch = PromptWatch(REGISTRY)
    assert found(watch, turn(prompt="You must call close_case at the end."), sg.SessionEnd(session_id="s")) == [
        ("s", "require_tool")
    ]


@pytest.mark.parametrize(
    "request_",
    [
        {"system": PROMPT},
        {"system": [{"type": "text", "text": PROMPT}]},
        {"system": [{"parts": [{"type": "text", "content": PROMPT}]}]},
        {"instructions": PROMPT},
        {"messages": [{"role": "system", "content": PROMPT}, {"role": "user", "content": "Never call x_y."}]},
        {"messages": [{"role": "developer", "content": [{"type": "text", "text": PROMPT}]}]},
    ],
)
def test_prompt_is_found_wherever_a_format_puts_it(request_: dict[str, Any]) -> None:
    assert prompt_of(sg.Turn(session_id="s", request=request_)) == PROMPT


def test_prompt_comes_from_the_system_alone() -> None:
    assert prompt_of(sg.Turn(session_id="s", request={"messages": [{"role": "user", "content": PROMPT}]})) == ""
    assert prompt_of(sg.Turn(session_id="s")) == ""


def test_declared_tools_close_the_catalogue() -> None:
    tools = [{"type": "function", "function": {"name": "pay_bill"}}, {"name": "check_user"}]
    event = sg.Turn(session_id="s", request={"system": "Never call file_path.", "tools": tools})
    assert declared_tools(event) == tools
    watch = PromptWatch(REGISTRY)
    assert found(watch, event, call("file_path")) == []


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["compliance", "watch", *map(str, arguments)])


def test_command_prints_violations_and_says_what_was_read(tmp_path: Path) -> None:
    lines = [
        {"kind": "turn", "session_id": "s", "request": {"system": PROMPT}, "response": {}},
        {"kind": "tool_call", "session_id": "s", "tool": "wipe_disk"},
    ]
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    done = run(file)
    assert done.exit_code == 1
    assert "CRITICAL s" in done.stdout
    assert "rules: 2, left to judgement: 1, not read: 0" in done.stderr
    assert json.loads(run(file, "--format", "json").stdout)["rule_id"] == "forbid-tool-wipe-disk"


def test_nothing_judged_is_not_clean(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text(json.dumps({"kind": "tool_call", "session_id": "s", "tool": "wipe_disk"}), encoding="utf-8")
    assert run(file).exit_code == 4
    assert run(file, "--allow-inconclusive").exit_code == 0
