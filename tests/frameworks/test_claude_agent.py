"""Claude Agent SDK: its client, its hooks, its in-process tools; the other end of the wire is scripted.

The SDK speaks a control protocol with the program that runs the model. The script plays that program: it asks the
registered hook before each tool, as the program does, and calls the tool only when the hook does not deny it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.frameworks.world import World, story, watched

if TYPE_CHECKING:
    from tests.frameworks.claude_client import Script


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    pytest.importorskip("claude_agent_sdk")  # here and not above: it takes a second, in every process
    with watched(tmp_path) as world:
        yield world


def ask(world: World, *calls: str) -> Script:
    from tests.frameworks import claude_client

    return claude_client.ask(world, *calls)


def test_an_allowed_tool_runs_and_its_result_is_told(world: World) -> None:
    assert ask(world, "read").outputs == ["read is done"]
    assert world.told() == story("read", "allow", "ok")


def test_a_blocked_tool_does_not_run_and_the_model_hears_why(world: World) -> None:
    script = ask(world, "drop", "read")
    assert script.denials == ["Not run: this is not allowed. drop is watched [drop: drop is watched drop was called]"]
    assert (script.outputs, world.ran) == (["read is done"], ["read"])
    assert world.told() == story("drop", "block", "blocked") + story("read", "allow", "ok")


def test_a_paused_tool_runs_once_after_its_approval(world: World) -> None:
    [text] = ask(world, "pay").denials
    assert text.startswith("Not run: a person has to approve this first (review ")
    assert world.ran == []
    world.approve()
    script = ask(world, "pay", "pay")
    assert (script.outputs, len(script.denials), world.ran) == (["pay is done"], 1, ["pay"])


def test_an_ended_session_stops_the_conversation_and_all_that_follow(world: World) -> None:
    script = ask(world, "leak", "read")
    assert script.stopped == "Not run: the session is over. leak is watched [leak: leak is watched leak was called]"
    assert ask(world, "read").stopped.startswith("Not run: the session is over.")
    assert world.ran == []


def test_a_gate_that_fails_is_shut(world: World) -> None:
    world.gate.database.close()
    [text] = ask(world, "read").denials
    assert "the gate failed" in text
    assert world.ran == []


def test_the_registered_hook_denies_a_probe(world: World) -> None:
    from stream_guard.integrations.claude_agent import ToolHooks

    assert ToolHooks(world.gate).probe()
