"""What each coding agent says and understands, where the vectors do not look: who asks, ids, counts, warnings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_guard.agent_hooks import session_counts
from stream_guard.agent_hooks.asking import Asking
from stream_guard.agent_hooks.client import GateError
from stream_guard.agent_hooks.dialects import AGENTS, dialect_of, speaker
from stream_guard.agent_hooks.installing import PLANS, samples_of
from stream_guard.agent_hooks.question import CALL, NOTHING, UNKNOWN
from stream_guard.agent_hooks.session_counts import UNJUDGED, DiskCounts
from tests.vectors.case import read_cases

PAYLOADS = Path(__file__).parents[2] / "golden" / "vectors" / "hooks" / "payloads.jsonl"
SHARING = ("claude-code", "codex", "vscode", "copilot-cli", "cursor")
CASES = [case.data for case in read_cases(PAYLOADS) if case.data["agent"] in SHARING]


class FakeGate:
    """Answers as it is told and keeps what it was asked: what a gate says is not the subject here."""

    def __init__(self, *, action: str = "allow", owed: int = 0, up: bool = True) -> None:
        self.action, self.owed, self.up = action, owed, up
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if not self.up:
            raise GateError("nobody is there")
        self.asked.append((path, body))
        if path == "/v1/check":
            return {"action": self.action, "judged": True, "reason": "r", "review": {"id": "rev1"}}
        if path == "/v1/obligations":
            return {"obligations": [{"rule_id": "owed", "detail": "a thing"}] * self.owed}
        return {"accepted": 1, "alerts": [], "refused": [], "action": "allow"}


def answer(agent: str, payload: dict[str, Any], gate: FakeGate, **options: Any) -> Any:
    dialect = dialect_of(agent)
    return Asking(gate, dialect, **options).answer(dialect.read(payload, ""))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_a_payload_is_told_from_those_of_all_other_agents_that_share_a_settings_file(case: dict[str, Any]) -> None:
    told = speaker(case["stdin"], "claude-code")
    # Without a tool in it, a payload of Codex at its end, or of Copilot in Claude Code's spelling, has no mark.
    assert told == case["agent"] or (told == "claude-code" and case["event"] == "SessionEnd")
    assert speaker(case["stdin"], case["agent"]) == case["agent"]


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_has_settings_and_its_samples_are_understood(agent: str) -> None:
    assert agent in PLANS
    abouts = [dialect_of(agent).read(payload, event).about for event, payload in samples_of(agent)]
    assert CALL in abouts
    assert UNKNOWN not in abouts
    assert NOTHING not in abouts


@pytest.mark.parametrize("agent", AGENTS)
def test_a_pause_names_its_review_whatever_the_agent_understands(agent: str) -> None:
    [(event, payload), *_] = samples_of(agent)
    dialect = dialect_of(agent)
    for how in ("review", "ask"):
        said = Asking(FakeGate(action="pause"), dialect, pause_as=how).answer(dialect.read(payload, event))
        assert "rev1" in json.dumps(said.said) + said.stderr


@pytest.mark.parametrize("agent", AGENTS)
def test_a_call_that_nobody_can_judge_does_not_run_and_runs_with_one_warning_where_that_was_chosen(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [(event, payload), *_] = samples_of(agent)
    dialect, gate = dialect_of(agent), FakeGate(up=False)
    allowed = dialect.allow(dialect.read(payload, event))
    shut = Asking(gate, dialect).answer(dialect.read(payload, event))
    assert (shut.said, shut.code) != (allowed.said, allowed.code)
    assert "could not judge this call: nobody is there" in json.dumps(shut.said) + shut.stderr

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    spoken = [
        Asking(gate, dialect, on_error="open", counts=DiskCounts()).answer(dialect.read(payload, event))
        for _ in range(3)
    ]
    warned = ["without being judged" in json.dumps(one.said) + one.stderr for one in spoken]
    assert warned == [True, False, False]
    assert (spoken[2].said, spoken[2].code) == (allowed.said, 0)
    assert list(session_counts.counts(UNJUDGED, {"XDG_STATE_HOME": str(tmp_path)}).values()) == [3]


def test_the_name_of_a_session_cannot_leave_the_folder_of_the_counts(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}
    for session in ("../../x", "/etc/passwd", "", "a\0b", "x" * 5000):
        assert session_counts.count(UNJUDGED, session, environment) == 0
    where = Path(session_counts.folder(UNJUDGED, environment))
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {where}
    session_counts.clear(UNJUDGED, environment)
    assert session_counts.counts(UNJUDGED, environment) == {}


@pytest.mark.parametrize(
    ("agent", "payload", "most"),
    [
        ("claude-code", {"hook_event_name": "Stop"}, 8),
        ("codex", {"hook_event_name": "Stop"}, 8),
        ("copilot-cli", {"stopReason": "end_turn"}, 8),
        ("gemini-cli", {"hook_event_name": "AfterAgent"}, 8),
        ("kimi", {"hook_event_name": "Stop"}, 1),
        ("cursor", {"hook_event_name": "stop"}, 5),
    ],
)
def test_an_agent_is_sent_back_to_work_as_often_as_its_contract_bears_and_then_let_go_with_a_warning(
    agent: str, payload: dict[str, Any], most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    dialect = dialect_of(agent)

    def wants_to_stop(before: int) -> str:
        told = {**payload, "session_id": "s", "sessionId": "s", "stop_hook_active": before > 0, "loop_count": before}
        said = Asking(FakeGate(owed=1), dialect, counts=DiskCounts()).answer(dialect.read(told, ""))
        return json.dumps(said.said) if said.code == 0 else "refused"

    answers = [wants_to_stop(before) for before in range(most + 2)]
    assert all("not finished yet" in answer for answer in answers[:most])
    assert not any("not finished yet" in answer for answer in answers[most:])
    assert "not finished yet" in wants_to_stop(0), "a new try of the agent begins the count anew"


@pytest.mark.parametrize("agent", ["gemini-cli", "droid", "goose", "amazon-q"])
def test_a_result_ends_the_call_of_an_agent_that_gives_no_ids(agent: str) -> None:
    before, after = {"gemini-cli": ("BeforeTool", "AfterTool")}.get(agent, ("PreToolUse", "PostToolUse"))
    call = {"session_id": "s", "tool_name": "sh", "cwd": "/"}
    name = "event" if agent == "goose" else "hook_event_name"
    gate = FakeGate()
    answer(agent, {**call, name: before, "tool_input": {"a": 1, "b": [2]}}, gate)
    answer(agent, {**call, name: after, "tool_input": {"b": [2], "a": 1}, "tool_response": {}}, gate)
    answer(agent, {**call, name: before, "tool_input": {"a": 2, "b": [2]}}, gate)
    ids = [body["call_id"] for path, body in gate.asked if path == "/v1/check"]
    [told] = [body["events"][0] for path, body in gate.asked if "tool_result" in json.dumps(body)]
    assert told["call_id"] == ids[0]
    assert ids[0] != ids[1]


def test_both_events_of_one_call_of_cursor_are_one_question_and_the_next_is_another() -> None:
    common = {"conversation_id": "c", "generation_id": "g1", "cursor_version": "2"}
    shell = {"command": "ls", "cwd": "/w"}
    first = {
        **common,
        "hook_event_name": "preToolUse",
        "tool_name": "Shell",
        "tool_input": {"command": "ls"},
        "cwd": "/w",
    }
    second = {**common, "hook_event_name": "beforeShellExecution", **shell}
    gate = FakeGate()
    for payload in (first, second, {**second, "generation_id": "g2"}):
        answer("cursor", payload, gate)
    asked = [body for path, body in gate.asked if path == "/v1/check"]
    told = [(body["tool"], body["args"], body["call_id"]) for body in asked]
    assert told[0] == told[1] == told[2]
    assert asked[0]["event_id"] == asked[1]["event_id"] != asked[2]["event_id"]


def test_mcp_calls_of_cursor_are_one_question_too_though_one_event_has_the_arguments_as_text() -> None:
    common = {"conversation_id": "c", "generation_id": "g1", "cursor_version": "2"}
    gate = FakeGate()
    answer("cursor", {**common, "hook_event_name": "preToolUse", "tool_name": "MCP:x", "tool_input": {"a": 1}}, gate)
    answer(
        "cursor", {**common, "hook_event_name": "beforeMCPExecution", "tool_name": "x", "tool_input": '{"a": 1}'}, gate
    )
    first, second = [body for path, body in gate.asked if path == "/v1/check"]
    assert (first["event_id"], first["tool"]) == (second["event_id"], second["tool"])


@pytest.mark.parametrize(
    ("agent", "payload", "held"),
    [
        ("claude-code", {"hook_event_name": "SubagentStop"}, {"decision": "block"}),
        ("vscode", {"hook_event_name": "SubagentStop"}, {"decision": "block"}),
        ("vscode", {"hook_event_name": "Stop"}, {"hookSpecificOutput": {"hookEventName": "Stop", "decision": "block"}}),
        ("qwen-code", {"hook_event_name": "Stop"}, {"decision": "block"}),
        ("droid", {"hook_event_name": "Stop"}, {"decision": "block"}),
        ("windsurf", {"agent_action_name": "post_cascade_response"}, None),
        ("goose", {"event": "Stop"}, None),
        ("amazon-q", {"hook_event_name": "stop"}, None),
    ],
)
def test_an_agent_is_held_up_by_what_it_understands(agent: str, payload: dict[str, Any], held: Any) -> None:
    said = answer(agent, {**payload, "session_id": "s"}, FakeGate(owed=1))
    shown = json.loads(json.dumps(said.said), object_hook=lambda one: {k: v for k, v in one.items() if k != "reason"})
    assert (shown, said.code) == (held, 0)


def test_denials_of_codex_hold_nothing_that_makes_codex_throw_them_away() -> None:
    for action in ("block", "pause", "terminate_session"):
        for event in ("PreToolUse", "PermissionRequest"):
            payload = {"hook_event_name": event, "session_id": "s", "turn_id": "t", "model": "m", "tool_name": "Bash"}
            said = answer("codex", payload, FakeGate(action=action), pause_as="ask").said
            assert said.keys() == {"hookSpecificOutput"}
            assert "ask" not in said["hookSpecificOutput"].values()


def test_a_byte_order_mark_and_another_case_of_letters_are_no_other_call() -> None:
    payload = {"hook_event_name": "preToolUse", "cwd": "/", "tool_name": "fs_write", "tool_input": {}}
    for event in ("preToolUse", "PreToolUse"):
        gate = FakeGate(action="block")
        assert answer("kiro", {**payload, "hook_event_name": event}, gate).code == 2
