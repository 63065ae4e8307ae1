"""OpenAI Agents SDK: its runner, its function tools, its scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_guard.guard.gate import Gate
from stream_guard.history.database import SqliteDatabase
from stream_guard.judge.model import Action
from stream_guard.judge.spec import Policy
from stream_guard.testing import rule_spec
from tests.frameworks.world import KINDS, TOOLS, World, story, watched


@pytest.fixture(autouse=True)
def _agents() -> None:
    pytest.importorskip("agents")  # here and not above: it takes a second, and every process imports every file


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with watched(tmp_path) as world:
        yield world


def ask(world: World, *calls: str) -> Any:
    """Let an agent whose model calls these tools, one after the other, run to its end."""
    from agents import function_tool

    def tool(name: str) -> Any:
        def body(amount: int) -> str:
            return world.run(name)

        return function_tool(body, name_override=name, description_override=name)

    return play(world.gate, [tool(name) for name in TOOLS], [(name, {"amount": 20}) for name in calls])


def play(gate: Gate, tools: list[Any], calls: list[tuple[str, Any]]) -> Any:
    """Let an agent with these tools run whose model makes these calls, each a name and its arguments."""
    from agents import Agent, RunConfig, Runner
    from agents.testing import ScriptedModel, assistant_message, function_call

    from stream_guard.integrations.openai_agents import ToolGate

    ToolGate(gate, "s1").watch(*tools)
    steps = [[function_call(name, given, call_id=f"c{n}")] for n, (name, given) in enumerate(calls)]
    model = ScriptedModel([*steps, [assistant_message("done")]])
    agent = Agent(name="payer", model=model, tools=tools)
    return asyncio.run(Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True)))


def outputs(result: Any) -> list[str]:
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


def test_an_allowed_tool_runs_and_its_result_is_told(world: World) -> None:
    assert outputs(ask(world, "read")) == ["read is done"]
    assert world.told() == story("read", "allow", "ok")


def test_a_blocked_tool_does_not_run_and_the_model_hears_why(world: World) -> None:
    assert outputs(ask(world, "drop", "read")) == [
        "Not run: this is not allowed. drop is watched [drop: drop is watched drop was called]",
        "read is done",
    ]
    assert world.ran == ["read"]
    assert world.told() == story("drop", "block", "blocked") + story("read", "allow", "ok")


def test_a_paused_tool_runs_once_after_its_approval(world: World) -> None:
    [text] = outputs(ask(world, "pay"))
    assert text.startswith("Not run: a person has to approve this first (review ")
    assert world.ran == []
    world.approve()
    first, second = outputs(ask(world, "pay", "pay"))
    assert (first, world.ran) == ("pay is done", ["pay"])
    assert second.startswith("Not run: a person has to approve")


def test_an_ended_session_ends_the_run_and_all_that_follow(world: World) -> None:
    from agents import ToolInputGuardrailTripwireTriggered

    for tool in ("leak", "read"):
        with pytest.raises(ToolInputGuardrailTripwireTriggered):
            ask(world, tool)
    assert world.ran == []
    assert world.told() == story("leak", "terminate_session", "blocked") + story("read", "terminate_session", "blocked")


def test_a_gate_that_fails_is_shut(world: World) -> None:
    world.gate.database.close()
    [text] = outputs(ask(world, "read"))
    assert "the gate failed" in text
    assert world.ran == []


@pytest.mark.parametrize(
    ("written", "ran"),
    [
        ('{"amount": 1}', ["move"]),
        ('{"amount": "1"}', ["move"]),
        ('{"amount": 1000000}', []),
        ('{"amount": "1000000"}', []),
        ('{"amount": 1, "amount": 1000000}', []),
        ('{"amount": 1000000, "amount": 1}', []),
        ('{"amount": 1e6, "x": Infinity}', []),
    ],
)
def test_a_rule_compares_what_the_tool_will_get(tmp_path: Path, written: str, ran: list[str]) -> None:
    from agents import function_tool

    params = {"when": {"tool_name_in": ["move"], "arg_gt": {"path": "amount", "value": 5}}}
    database = SqliteDatabase(tmp_path / "history.db")
    gate = Gate(Policy(rules=(rule_spec(KINDS["tool_guard"], params, then=Action.BLOCK),), version="v1"), database)
    done: list[str] = []

    def move(amount: float) -> str:
        done.append("move")
        return "done"

    play(gate, [function_tool(move, strict_mode=False)], [("move", written)])
    database.close()
    assert done == ran


def test_the_registered_guardrail_blocks_a_probe(world: World) -> None:
    from stream_guard.integrations.openai_agents import ToolGate

    assert ToolGate(world.gate, "s1").probe()
