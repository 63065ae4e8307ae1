"""A hook hands its payload to the gate: the answer is the one that the hook would find by itself, and costs little."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_guard.agent_hooks import command
from stream_guard.agent_hooks.asking import answer_in_parts, question_of
from stream_guard.agent_hooks.client import GateClient
from stream_guard.agent_hooks.dialects import AGENTS
from stream_guard.agent_hooks.installing import samples_of
from stream_guard.guard.gate import Gate
from stream_guard.serve.hook_answers import HeldCounts
from tests.vectors.hooks import start
from tests.wires.gate import serving

ROOT = Path(__file__).parents[3]
POLICY = """
rules:
  - {id: all, kind: no_call, params: {tool: "*"}, then: block}
  - {id: hello, kind: forbidden_text, params: {pattern: Hello, where: user}, then: block}
  - {id: owed, kind: must_call_once, params: {tool: never}}
"""
CALL = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Read", "tool_input": {}, "tool_use_id": "t"}


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Gate]]:
    with serving(tmp_path_factory.mktemp("gate"), POLICY) as served:
        yield served


def options(agent: str, address: str, **more: str) -> dict[str, str]:
    return {**command.read_options([agent], {}), "gate": address, "timeout": "60", **more}


def named_anew(said: Any, session: str) -> bytes:
    """Return a payload in a session of its own, so that nothing of an earlier one counts."""
    return json.dumps(said).replace("stream-guard-hook-test", session).encode()


@pytest.mark.parametrize("agent", AGENTS)
def test_the_gate_answers_a_payload_as_the_hook_would_that_asks_in_parts(
    agent: str, gate: tuple[str, Gate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for event, payload in samples_of(agent):
        for how in ("review", "ask"):
            asked = options(agent, gate[0], event=event, pause_as=how)
            spoken = []
            for number, way in enumerate((command._relay, answer_in_parts)):
                client = GateClient(gate[0], timeout=60)
                try:
                    spoken.append(way(client, asked, named_anew(payload, f"{agent}-{event}-{how}-{number}")))
                finally:
                    client.close()
            assert spoken[0] == spoken[1]


def test_words_for_both_outputs_and_an_exit_code_come_through_whole(gate: tuple[str, Gate]) -> None:
    said, code, stderr = start({"agent": "windsurf", "event": "", "stdin": samples_of("windsurf")[0][1]}, gate[0])
    assert (said, code) == (None, 2)
    assert "Not run: this is not allowed." in stderr


@pytest.mark.parametrize("said", [b"\xef\xbb\xbf" + json.dumps(CALL).encode(), json.dumps(CALL).encode("utf-16")])
def test_a_payload_that_the_gate_cannot_read_is_read_by_the_hook(said: bytes, gate: tuple[str, Gate]) -> None:
    answer, _, _ = start({"agent": "claude-code", "stdin_b64": base64.b64encode(said).decode()}, gate[0])
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "this is not allowed" in answer["hookSpecificOutput"]["permissionDecisionReason"]


def test_what_the_gate_refuses_to_judge_gets_what_the_user_chose(gate: tuple[str, Gate]) -> None:
    told = {**CALL, "session_id": "\0odd"}
    words = {}
    for way in ("closed", "ask", "open"):
        said, _, _ = start({"agent": "claude-code", "stdin": told, "on_error": way}, gate[0])
        words[way] = said.get("hookSpecificOutput", {}).get("permissionDecision")
        assert "session_id begins with a NUL" in json.dumps(said)
    assert words == {"closed": "deny", "ask": "ask", "open": None}


def test_an_agent_without_sessions_has_one_for_each_process_that_asks() -> None:
    told = {"hook_event_name": "preToolUse", "cwd": "/code", "tool_name": "fs_read", "tool_input": {}}
    assert [question_of(told, "kiro", "", process)[1].session for process in (7, 0)] == ["kiro:7:/code", "kiro:/code"]
    assert question_of({**told, "session_id": "s"}, "kiro", "", 7)[1].session == "s"


def test_the_gate_counts_how_often_an_agent_was_sent_back_and_forgets_the_oldest() -> None:
    counts = HeldCounts()
    assert [counts.held("a", again=again) for again in (False, True, True, False, True)] == [0, 1, 2, 0, 1]
    for number in range(10_001):
        counts.held(str(number), again=False)
    assert counts.held("a", again=True) == 0
    assert counts.held("10000", again=True) == 1


def test_an_agent_is_let_go_after_eight_refusals_though_every_hook_is_another_process(gate: tuple[str, Gate]) -> None:
    told = {"hook_event_name": "Stop", "session_id": "worn-out", "last_assistant_message": "done"}
    held = [
        start({"agent": "claude-code", "stdin": {**told, "stop_hook_active": number > 0}}, gate[0])[0].get("decision")
        for number in range(10)
    ]
    assert held == ["block"] * 8 + [None] * 2


SLOW = ["typing", "typer", "pydantic", "msgspec", "ssl", "http", "urllib", "email", "asyncio", "pathlib", "logging"]
SLOW += ["dataclasses", "argparse", "importlib.metadata", "hashlib", "encodings.idna"]
FIRST = ["client", "command", "dialects"]
ALONE = [*FIRST, "agents", "asking", "question"]


@pytest.mark.parametrize(("up", "used"), [(True, FIRST), (False, ALONE)])
def test_a_hook_imports_neither_the_engine_nor_anything_slow(up: bool, used: list[str], gate: tuple[str, Gate]) -> None:
    avoided = [*SLOW, *(["json", "re", "contextlib"] if up else [])]  # without a gate the hook reads the payload itself
    program = (
        "import sys\n"
        "from stream_guard.agent_hooks.command import main\n"
        f"main(['claude-code', '--gate={gate[0] if up else 'http://127.0.0.1:9'}', '--timeout=60'])\n"
        "print([name for name in sys.modules if name.startswith('stream_guard.')])\n"
        f"print([name for name in {avoided} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        input=json.dumps(CALL),
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    message, ours, slow = done.stdout.splitlines()
    assert "deny" in message
    assert slow == "[]"
    rooms = ["agent_hooks", *(f"agent_hooks.{module}" for module in used)]
    assert sorted(json.loads(ours.replace("'", '"'))) == sorted(f"stream_guard.{room}" for room in rooms)
