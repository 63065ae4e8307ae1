"""Payloads that agents send at the edges of their contracts: other versions, missing fields, raw bytes, no gate."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.vectors.hooks import run

CLAUDE = {"session_id": "s", "cwd": "/code", "permission_mode": "default", "hook_event_name": "PreToolUse"}
BASH = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": "t1"}
CODEX = {**CLAUDE, "turn_id": "u", "model": "m", "transcript_path": None, **BASH}
SPECIFIC = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "*"}
DENIED = {"hookSpecificOutput": SPECIFIC}
ASKED = {"hookSpecificOutput": {**SPECIFIC, "permissionDecision": "ask"}}
STOP = {"session_id": "s", "cwd": "/code", "hook_event_name": "Stop", "stop_hook_active": False}


def case(agent: str, stdin: Any, said: Any, *, code: int | None = 0, words: str | None = None, **more: Any) -> Any:
    expected = {"stdout_json": said, "exit": code, "stderr_contains": words}
    return pytest.param({"id": "own", "agent": agent, "stdin": stdin, "expect": expected, **more})


def raw(said: bytes) -> dict[str, Any]:
    return {"stdin_b64": base64.b64encode(said).decode()}


@pytest.mark.parametrize(
    "one",
    [
        # What is no payload is refused in the way that stops the agent.
        case("claude-code", None, None, code=2, words="hook failed", **raw(b"")),
        case("codex", None, None, code=2, words="hook failed", **raw(b"not json")),
        case("gemini-cli", None, None, code=2, words="hook failed", **raw(b'["a"]')),
        case("cline", None, {"cancel": True, "errorMessage": "*"}, **raw(b"{")),
        case("cursor", None, None, code=2, words="hook failed", **raw(b"\xff\xfe\x00")),
        # A byte order mark and another encoding are Windows, and no fault.
        case(
            "claude-code",
            None,
            DENIED,
            gate_says="block",
            **raw(b"\xef\xbb\xbf" + json.dumps({**CLAUDE, **BASH}).encode()),
        ),
        case("claude-code", None, DENIED, gate_says="block", **raw(json.dumps({**CLAUDE, **BASH}).encode("utf-16"))),
        # Without a gate, as was chosen.
        case("claude-code", {**CLAUDE, **BASH}, DENIED, gate="down", on_error="closed"),
        case("claude-code", {**CLAUDE, **BASH}, ASKED, gate="down", on_error="ask"),
        case("claude-code", {**CLAUDE, **BASH}, {"systemMessage": "*"}, gate="down", on_error="open"),
        case("codex", CODEX, DENIED, gate="down", on_error="ask"),
        case(
            "windsurf",
            {"agent_action_name": "pre_run_command", "trajectory_id": "t", "tool_info": {"command_line": "ls"}},
            None,
            code=2,
            words="could not judge",
            gate="down",
        ),
        # Fields that a contract leaves out at times.
        case("vscode", {"timestamp": "2026-11-04T09:12:33Z", "hook_event_name": "PreToolUse", **BASH}, None),
        case("claude-code", {"hook_event_name": "PreToolUse", **BASH}, DENIED),
        case("claude-code", {**CLAUDE, "tool_input": {}}, DENIED),
        case("droid", {**CLAUDE, "permission_mode": "off", "tool_name": "Execute", "tool_input": {}}, None),
        case("codex", {**CODEX, "tool_name": "my_tool", "tool_input": "raw text"}, None),
        case("codex", {**CODEX, "tool_input": None}, DENIED, gate_says="block"),
        # An agent that reads another's settings is answered in its own words.
        case("claude-code", CODEX, DENIED, gate_says="terminate"),
        case(
            "claude-code",
            {
                "conversation_id": "c",
                "cursor_version": "2",
                "hook_event_name": "preToolUse",
                "tool_name": "Shell",
                "tool_input": {"command": "ls"},
            },
            {"permission": "allow"},
        ),
        case(
            "claude-code",
            {**STOP, "timestamp": "2026-11-04T09:12:33Z"},
            {"hookSpecificOutput": {"hookEventName": "Stop", "decision": "block", "reason": "*"}},
            gate_says="obligation",
        ),
        # Over HTTP the way of asking stands in the address.
        case("claude-code", {**CLAUDE, **BASH}, ASKED, code=None, carrier="http", gate_says="pause", pause_as="ask"),
        # Events that need no answer, and one of a later version.
        case("claude-code", {**CLAUDE, "hook_event_name": "PermissionDenied", **BASH, "reason": "no"}, None),
        case("claude-code", {**CLAUDE, "hook_event_name": "PreModelSwitch"}, None),
        case("gemini-cli", {"session_id": "s", "hook_event_name": "BeforeModel", "timestamp": "t"}, None),
        case("kiro", {"hook_event_name": "PostFileSave", "cwd": "/code"}, None),
        case(
            "claude-code", {**CLAUDE, "hook_event_name": "BeforeToolUse", **BASH}, None, code=2, words="does not know"
        ),
        # Kimi is held up once, and a prompt is refused in the same words as a call.
        case(
            "kimi",
            {**STOP, "client_type": "kimi_code_cli", "stop_hook_active": True},
            {"message": "*"},
            gate_says="obligation",
        ),
        case(
            "kimi",
            {**STOP, "hook_event_name": "UserPromptSubmit", "prompt": "hi"},
            {"hookSpecificOutput": {**SPECIFIC, "hookEventName": "UserPromptSubmit"}},
            gate_says="block",
        ),
        # A payload larger than a gate takes: a call is not run, a result is told without what it gave.
        case(
            "claude-code",
            {**CLAUDE, **BASH},
            DENIED,
            gate_says="allow",
            grow={"pointer": "/tool_input/command", "unit": "a", "times": 9_000_000},
        ),
        case(
            "claude-code",
            {**CLAUDE, **BASH, "hook_event_name": "PostToolUse", "tool_response": {"stdout": ""}},
            None,
            grow={"pointer": "/tool_response/stdout", "unit": "a", "times": 9_000_000},
        ),
    ],
)
def test_an_edge_of_a_contract_is_answered_as_the_agent_understands_it(one: dict[str, Any]) -> None:
    run(one)
