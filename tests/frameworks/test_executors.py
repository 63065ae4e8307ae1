"""Real agents and servers, end to end: a call that is spelt otherwise does not run past a rule; an honest one runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from stream_guard.guard.gate import Gate
from stream_guard.history.database import SqliteDatabase
from stream_guard.judge.model import Action
from stream_guard.judge.spec import Policy
from stream_guard.testing import rule_spec
from tests.frameworks.world import KINDS

FORBIDDEN: list[dict[str, Any]] = [
    {"arg_gt": {"path": "amount", "value": 100}},
    {"arg_eq": {"path": "force", "value": True}},
    {"arg_gt": {"path": "order.amount", "value": 100}},
    {"arg_in": {"path": "order.rush", "values": [True]}},
    {"arg_eq": {"path": "to.0", "value": "evil@example.org"}},
]
HONEST: dict[str, Any] = {
    "amount": 20,
    "force": False,
    "order": {"amount": 1, "rush": False},
    "to": ["ann@example.org"],
    "note": '{"amount": 1000000}',
}
EVERYWHERE: list[dict[str, Any]] = [
    {"amount": "1000000"},
    {"amount": " 1000000.0 "},
    {"amount": "1_000_000"},
    {"force": "true"},
    {"force": "yes"},
    {"force": 1},
    {"force": "1"},
    {"order": {"amount": "101", "rush": False}},
    {"order": {"amount": 1, "rush": "on"}},
]
ON_SERVERS: list[dict[str, Any]] = [
    {"order": '{"amount": 1000000, "rush": false}'},
    {"order": ' {"amount": "101", "rush": "no"}'},
    {"to": '["\\u0065vil@example.org"]'},
]


class Order(BaseModel):
    """A model inside the arguments."""

    amount: int
    rush: bool


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    rules = tuple(
        rule_spec(KINDS["tool_guard"], {"when": {"tool_name_in": ["pay"], **when}}, rule_id=f"r{n}", then=Action.BLOCK)
        for n, when in enumerate(FORBIDDEN)
    )
    database = SqliteDatabase(tmp_path / "history.db")
    yield Gate(Policy(rules=rules, version="v1"), database)
    database.close()


def tool(ran: list[Any]) -> Callable[..., str]:
    def pay(amount: int, force: bool, order: Order, to: list[str], note: str) -> str:
        """Pay."""
        ran.append((amount, force, order.amount, to, note))
        return "done"

    return pay


def by_mcp(gate: Gate, ran: list[Any], calls: list[dict[str, Any]]) -> None:
    from mcp import Client
    from mcp.server.mcpserver import MCPServer

    from stream_guard.integrations.mcp import ToolMiddleware

    async def work() -> None:
        server = MCPServer("shop", middleware=[ToolMiddleware(gate, "s1")])
        server.add_tool(tool(ran), name="pay")
        async with Client(server) as client:
            for args in calls:
                await client.call_tool("pay", args)

    asyncio.run(work())


def by_openai(gate: Gate, ran: list[Any], calls: list[dict[str, Any]], *, strict: bool = True) -> None:
    from agents import Agent, RunConfig, Runner, function_tool
    from agents.testing import ScriptedModel, assistant_message, function_call

    from stream_guard.integrations.openai_agents import ToolGate

    made = function_tool(tool(ran), strict_mode=strict)
    ToolGate(gate, "s1").watch(made)
    steps = [[function_call("pay", json.dumps(args), call_id=f"c{n}")] for n, args in enumerate(calls)]
    model = ScriptedModel([*steps, [assistant_message("done")]])
    agent = Agent(name="payer", model=model, tools=[made])
    asyncio.run(Runner.run(agent, "go", max_turns=50, run_config=RunConfig(tracing_disabled=True)))


def by_loose_openai(gate: Gate, ran: list[Any], calls: list[dict[str, Any]]) -> None:
    by_openai(gate, ran, calls, strict=False)


def by_langchain(gate: Gate, ran: list[Any], calls: list[dict[str, Any]]) -> None:
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage
    from langchain_core.tools import StructuredTool

    from stream_guard.integrations.langchain import make_middleware
    from tests.frameworks.langchain_agent import Scripted

    steps = [
        AIMessage("", tool_calls=[{"name": "pay", "args": args, "id": f"c{n}", "type": "tool_call"}])
        for n, args in enumerate(calls)
    ]
    agent: Any = create_agent(
        Scripted(messages=iter([*steps, AIMessage("done")])),
        [StructuredTool.from_function(tool(ran), name="pay")],
        middleware=[make_middleware(gate)],
    )
    given = {"messages": [("user", "go")]}
    agent.invoke(given, {"configurable": {"thread_id": "s1"}, "recursion_limit": 100})


DRIVERS = {
    "mcp": (by_mcp, "mcp", [*EVERYWHERE, *ON_SERVERS]),
    "openai-agents-strict": (by_openai, "agents", EVERYWHERE),
    "openai-agents": (by_loose_openai, "agents", EVERYWHERE),
    "langchain": (by_langchain, "langchain", EVERYWHERE),
}


@pytest.mark.parametrize("framework", DRIVERS)
def test_a_call_that_is_spelt_otherwise_does_not_run_past_a_rule(framework: str, gate: Gate) -> None:
    drive, package, spelt = DRIVERS[framework]
    pytest.importorskip(package)
    ran: list[Any] = []
    drive(gate, ran, [HONEST | one for one in spelt])
    assert ran == []


@pytest.mark.parametrize("framework", DRIVERS)
def test_honest_calls_run_also_where_a_number_is_a_text(framework: str, gate: Gate) -> None:
    drive, package, _ = DRIVERS[framework]
    pytest.importorskip(package)
    ran: list[Any] = []
    drive(gate, ran, [HONEST, HONEST | {"amount": "99"}, HONEST | {"force": "no", "note": "yes"}])
    assert [one[0] for one in ran] == [20, 99, 20]


@pytest.mark.parametrize("framework", DRIVERS)
def test_without_the_gate_these_calls_run(framework: str, tmp_path: Path) -> None:
    """What is stopped above is what the tool would have got."""
    drive, package, spelt = DRIVERS[framework]
    pytest.importorskip(package)
    database = SqliteDatabase(tmp_path / "history.db")
    ran: list[Any] = []
    drive(Gate(Policy(rules=(), version="v1"), database), ran, [HONEST | one for one in spelt])
    database.close()
    assert len(ran) == len(spelt)
