"""The plugins of OpenCode and Amp in a real JavaScript engine, against a real gate."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.agent_plugins import NODE, play
from tests.parts import require
from tests.wires.gate import serving

POLICY = """
rules:
  - {id: no-drop, kind: no_call, params: {tool: drop}, then: block, reason: Tables stay.}
  - {id: read-first, kind: must_call_before, params: {first: read, second: edit, first_must_succeed: true}, then: block}
"""
AGENTS = ["opencode", "amp"]


@pytest.fixture(autouse=True)
def engine() -> None:
    require(NODE, "node is not installed")


def call(agent: str, tool: str, number: int) -> dict[str, Any]:
    if agent == "amp":
        thread = {"id": "s", "more": "than is told"}
        return {"event": "tool.call", "thread": thread, "toolUseID": f"c{number}", "tool": tool, "input": {"n": number}}
    called = {"tool": tool, "sessionID": "s", "callID": f"c{number}"}
    return {"hook": "tool.execute.before", "input": called, "output": {"args": {"n": number}}}


def result(agent: str, tool: str, number: int) -> dict[str, Any]:
    if agent == "amp":
        return {**call(agent, tool, number), "event": "tool.result", "status": "done", "output": "text"}
    made = call(agent, tool, number)
    return {**made, "hook": "tool.execute.after", "output": {"output": "text", "metadata": {}}}


def refused(said: Any) -> str:
    """Return why a handler refused; nothing where it did not."""
    if isinstance(said, dict) and "throws" in said:
        return str(said["throws"])
    return str(said["message"]) if isinstance(said, dict) and said["action"] == "reject-and-continue" else ""


@pytest.mark.parametrize("agent", AGENTS)
def test_a_plugin_refuses_what_the_gate_refuses_and_tells_results(agent: str, tmp_path: Path) -> None:
    tools = [call(agent, "drop", 0), call(agent, "edit", 1), call(agent, "read", 2), result(agent, "read", 2)]
    with serving(tmp_path, POLICY) as (gate, _):
        said = [refused(one) for one in play(agent, gate, [*tools, call(agent, "edit", 3)])]
    assert "Tables stay." in said[0]
    assert "read-first" in said[1]
    assert said[2:] == ["", "", ""]


@pytest.mark.parametrize("agent", AGENTS)
def test_without_a_gate_a_plugin_refuses_unless_told_otherwise(agent: str) -> None:
    [shut] = play(agent, "http://127.0.0.1:9", [call(agent, "read", 0)])
    assert "could not judge this call" in refused(shut)
    [run] = play(agent, "http://127.0.0.1:9", [call(agent, "read", 0)], STREAM_GUARD_HOOK__ON_ERROR="open")
    assert refused(run) == ""


@pytest.mark.parametrize("agent", AGENTS)
def test_a_gate_that_is_silent_is_given_up_in_time(agent: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        silent = f"http://127.0.0.1:{listening.getsockname()[1]}"
        [shut] = play(agent, silent, [call(agent, "read", 0)], STREAM_GUARD_HOOK__TIMEOUT="0.2")
    assert "could not judge this call" in refused(shut)
