"""MCP: a real server and a real client, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_guard.guard.gate import Gate
from stream_guard.history.database import open_database
from stream_guard.judge.model import Action
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.testing import rule_spec
from tests.frameworks.world import TOOLS, World, story, watched
from tests.parts import import_part


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    import_part("mcp")  # here and not above: it takes a second, and every process imports every file
    with watched(tmp_path) as world:
        yield world


def ask(world: World, *calls: str) -> list[tuple[str, bool]]:
    """Call these tools, one after the other, and return what the client gets: text, and whether it is an error."""
    from mcp import Client
    from mcp.server.mcpserver import MCPServer

    from stream_guard.integrations.mcp import ToolMiddleware

    async def work() -> list[tuple[str, bool]]:
        server = MCPServer("shop", middleware=[ToolMiddleware(world.gate, "s1")])
        for name in TOOLS:
            server.add_tool(_tool(world, name), name=name, description=name)
        async with Client(server) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == set(TOOLS)
            results: list[Any] = [await client.call_tool(name, {"amount": 20}) for name in calls]
        return [(result.content[0].text, bool(result.is_error)) for result in results]

    return asyncio.run(work())


def _tool(world: World, name: str) -> Any:
    def body(amount: int) -> str:
        return world.run(name)

    return body


def test_an_allowed_tool_runs_and_its_result_is_told(world: World) -> None:
    assert ask(world, "read") == [("read is done", False)]
    assert world.told() == story("read", "allow", "ok")


def test_a_blocked_tool_does_not_run_and_the_client_hears_why(world: World) -> None:
    assert ask(world, "drop", "read") == [
        ("Not run: this is not allowed. drop is watched [drop: drop is watched drop was called]", True),
        ("read is done", False),
    ]
    assert world.ran == ["read"]
    assert world.told() == story("drop", "block", "blocked") + story("read", "allow", "ok")


def test_a_paused_tool_runs_once_after_its_approval(world: World) -> None:
    [(text, failed)] = ask(world, "pay")
    assert (text.startswith("Not run: a person has to approve this first (review "), failed) == (True, True)
    assert world.ran == []
    world.approve()
    first, (_, failed) = ask(world, "pay", "pay")
    assert (first, failed, world.ran) == (("pay is done", False), True, ["pay"])


def test_in_an_ended_session_every_call_is_refused(world: World) -> None:
    refused = ask(world, "leak", "read", "read")
    assert [failed for _, failed in refused] == [True] * 3
    assert refused[1][0] == "Not run: the session is over. the session was ended: leak is watched"
    assert world.ran == []


def test_a_gate_that_fails_is_shut(world: World) -> None:
    world.gate.database.close()
    [(text, failed)] = ask(world, "read")
    assert ("the gate failed" in text, failed, world.ran) == (True, True, [])


def test_a_changed_call_runs_with_the_arguments_that_were_judged(tmp_path: Path) -> None:
    import_part("mcp")
    policy = """
rules:
  - id: cap
    kind: no_call
    params: {tool: read}
    when: {path: tool.args.amount, op: ">", value: 5}
    then: modify
    modify: [{path: amount, cap: 5}]
"""
    database = open_database(str(tmp_path / "history.db"))
    gate = Gate(load_policy(policy, build_registry()), database)
    got: list[int] = []

    async def work() -> bool:
        from mcp import Client
        from mcp.server.mcpserver import MCPServer

        from stream_guard.integrations.mcp import ToolMiddleware

        def read(amount: int) -> str:
            got.append(amount)
            return "done"

        server = MCPServer("shop", middleware=[ToolMiddleware(gate, "s1")])
        server.add_tool(read, name="read", description="read")
        async with Client(server) as client:
            return bool((await client.call_tool("read", {"amount": 20})).is_error)

    failed = asyncio.run(work())
    database.close()
    assert (got, failed) == ([5], False)


def test_the_middleware_blocks_a_probe(world: World) -> None:
    from stream_guard.integrations.mcp import ToolMiddleware

    assert ToolMiddleware(world.gate, "s1").probe()


def test_clients_that_number_their_requests_alike_use_up_one_limit(tmp_path: Path) -> None:
    import_part("mcp")
    rule = rule_spec(build_registry().kinds["max_calls"], {"tool": "read", "n": 3}, then=Action.BLOCK)
    database = open_database(str(tmp_path / "history.db"))
    gate = Gate(Policy(rules=(rule,), version="v"), database)
    ran: list[int] = []

    async def work() -> None:
        from mcp import Client
        from mcp.server.mcpserver import MCPServer

        from stream_guard.integrations.mcp import ToolMiddleware

        arrived = asyncio.Event()

        async def read(amount: int) -> str:
            ran.append(amount)
            if len(ran) == 3:
                arrived.set()
            await arrived.wait()  # nobody has a result while the others ask
            return "done"

        async def one() -> None:
            server = MCPServer("shop", middleware=[ToolMiddleware(gate, "s1")])
            server.add_tool(read, name="read", description="read")
            async with Client(server) as client:
                await client.call_tool("read", {"amount": 20})

        await asyncio.gather(*(one() for _ in range(6)))

    asyncio.run(work())
    database.close()
    assert ran == [20] * 3
