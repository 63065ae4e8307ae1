"""LangChain: its agent on LangGraph, its tools, its fake model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_guard.integrations.attempts import SessionEndedError
from tests.frameworks.world import World, story, watched


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    pytest.importorskip("langchain")  # here and not above: it takes a second, and every process imports every file
    with watched(tmp_path) as world:
        yield world


def ask(world: World, *calls: str, in_loop: bool = False, thread: str = "s1") -> list[Any]:
    from tests.frameworks import langchain_agent

    return langchain_agent.ask(world, *calls, in_loop=in_loop, thread=thread)


@pytest.mark.parametrize("in_loop", [False, True])
def test_an_allowed_tool_runs_and_its_result_is_told(world: World, in_loop: bool) -> None:
    [message] = ask(world, "read", in_loop=in_loop)
    assert (message.content, message.status) == ("read is done", "success")
    assert world.told() == story("read", "allow", "ok")


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_blocked_tool_does_not_run_and_the_model_hears_why(world: World, in_loop: bool) -> None:
    first, second = ask(world, "drop", "read", in_loop=in_loop)
    refused = "Not run: this is not allowed. drop is watched [drop: drop is watched drop was called]"
    assert (first.content, first.status) == (refused, "error")
    assert (second.content, world.ran) == ("read is done", ["read"])
    assert world.told() == story("drop", "block", "blocked") + story("read", "allow", "ok")


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_paused_tool_runs_once_after_its_approval(world: World, in_loop: bool) -> None:
    [message] = ask(world, "pay", in_loop=in_loop)
    assert str(message.content).startswith("Not run: a person has to approve this first (review ")
    assert world.ran == []
    world.approve()
    first, second = ask(world, "pay", "pay", in_loop=in_loop)
    assert (first.content, second.status, world.ran) == ("pay is done", "error", ["pay"])


@pytest.mark.parametrize("in_loop", [False, True])
def test_an_ended_session_ends_the_run_and_all_that_follow(world: World, in_loop: bool) -> None:
    for tool in ("leak", "read"):
        with pytest.raises(SessionEndedError, match="the session is over"):
            ask(world, tool, in_loop=in_loop)
    assert world.ran == []
    assert ask(world, "read", thread="s2")[0].content == "read is done"


def test_a_gate_that_fails_is_shut(world: World) -> None:
    world.gate.database.close()
    [message] = ask(world, "read")
    assert "the gate failed" in str(message.content)
    assert world.ran == []


def test_the_middleware_blocks_a_probe(world: World) -> None:
    from stream_guard.integrations.langchain import make_middleware

    middleware: Any = make_middleware(world.gate)
    assert middleware.probe()
