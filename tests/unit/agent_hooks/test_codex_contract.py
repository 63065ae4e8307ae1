"""Codex throws away an answer that its schema does not know, and the tool runs: every answer is held against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from stream_guard.agent_hooks.dialects import speaker
from stream_guard.agent_hooks.installing import samples_of
from tests.unit.agent_hooks.codex_contract import EVENTS, given, taken
from tests.vectors.hooks import start
from tests.wires.gate import serving

WORDS = ("block", "pause", "terminate_session")
RULES = [f"{{id: calls-{word}, kind: no_call, params: {{tool: {word}}}, then: {word}}}" for word in WORDS]
RULES += [
    f"{{id: prompts-{word}, kind: forbidden_text, params: {{pattern: {word}, where: user}}, then: {word}}}"
    for word in WORDS
]
RULES += ["{id: told, kind: no_call, params: {tool: alert}}", "{id: owed, kind: must_call_once, params: {tool: alert}}"]
MEANT = ("allow", "alert", *WORDS)
DENIED = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
NO_GATE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("gate"), f"rules: [{', '.join(RULES)}]") as (address, _):
        yield address


def payload(event: str, meant: str) -> dict[str, Any]:
    """Return a payload of Codex on which the policy decides as is meant."""
    common = {"session_id": f"{event}-{meant}", "transcript_path": None, "cwd": "/code", "hook_event_name": event}
    turn = {"turn_id": "t1", "model": "gpt", "permission_mode": "default"}
    call = {"tool_name": meant, "tool_input": {"command": "ls"}}
    stopped = {"stop_hook_active": False, "last_assistant_message": None}
    more: dict[str, dict[str, Any]] = {
        "PreToolUse": {**call, "tool_use_id": "c1"},
        "PermissionRequest": call,
        "PostToolUse": {**call, "tool_use_id": "c1", "tool_response": "done"},
        "UserPromptSubmit": {"prompt": f"please {meant}"},
        "Stop": stopped,
        "SubagentStop": {**stopped, "agent_id": "a1", "agent_type": "explorer", "agent_transcript_path": None},
    }
    return {**common, "reason": "other"} if event == "SessionEnd" else {**common, **turn, **more[event]}


def check(schema: dict[str, Any], value: Any) -> None:
    Draft202012Validator(schema).validate(value)


def refuses(event: str, said: Any, code: int | None) -> bool:
    """Whether Codex stops what waits for the hook."""
    if code or not said:
        return code == 2
    check(taken(event), said)
    specific = said.get("hookSpecificOutput", {})
    words = {said.get("decision"), specific.get("permissionDecision"), specific.get("decision", {}).get("behavior")}
    return bool(words & {"deny", "block"})


@pytest.mark.parametrize("meant", MEANT)
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("named", ["codex", "claude-code"])
def test_codex_takes_every_answer_and_stops_what_the_gate_stops(gate: str, event: str, meant: str, named: str) -> None:
    told = payload(event, meant)
    check(given(event), told)
    for pause_as in ("review", "ask"):
        said, code, _ = start({"agent": named, "stdin": told, "pause_as": pause_as}, gate)
        stopped = refuses(event, said, code)
        if event in ("Stop", "SubagentStop"):
            assert stopped, "a call is owed in every session"
        elif event in ("PreToolUse", "PermissionRequest", "UserPromptSubmit"):
            assert stopped is (meant in WORDS)


@pytest.mark.parametrize("on_error", ["closed", "ask", "open"])
@pytest.mark.parametrize("event", EVENTS)
def test_codex_takes_every_answer_when_no_gate_is_there(event: str, on_error: str) -> None:
    said, code, _ = start({"agent": "codex", "stdin": payload(event, "allow"), "on_error": on_error}, NO_GATE)
    stopped = refuses(event, said, code)
    if event in ("PreToolUse", "PermissionRequest"):
        assert stopped is (on_error != "open")


@pytest.mark.parametrize(
    "said",
    [
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}},
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}},
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}},
        {"hookSpecificOutput": {"hookEventName": "PreToolUse"}, "continue": False},
        {"hookSpecificOutput": {"hookEventName": "PreToolUse"}, "stopReason": "no"},
        {"hookSpecificOutput": {"hookEventName": "PostToolUse"}},
        {"hookSpecificOutput": {**DENIED, "permissionDecisionReason": " "}},
        {"hookSpecificOutput": {**DENIED, "permissionDecisionReason": "no", "other": 1}},
        {"decision": "approve"},
        {"other": 1},
    ],
)
def test_the_schema_refuses_what_codex_throws_away(said: Any) -> None:
    with pytest.raises(ValidationError):
        check(taken("PreToolUse"), said)


def test_payloads_that_try_the_hook_out_are_those_of_codex() -> None:
    for event, told in samples_of("codex"):
        check(given(event), told)
        assert speaker(told, "claude-code") in ("codex", "claude-code")
