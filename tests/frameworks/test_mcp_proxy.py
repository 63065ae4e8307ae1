"""The MCP proxy between a real client and a real server, over pipes and over HTTP, in both ages of the protocol."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stream_guard.mcp_wire.judge import META, McpJudge, SessionKeys
from stream_guard.mcp_wire.relay import Relay
from stream_guard.settings import ApiSettings
from tests.parts import import_part
from tests.wires.gate import POLICY, own_gate, running, serving

MODES = ("auto", "legacy")


@pytest.fixture(autouse=True)
def package() -> None:
    import_part("mcp")  # here and not above: it takes a second, and every process imports every file


def talk(
    server: Any, *calls: tuple[str, dict[str, Any]], mode: str = "auto", meta: Any = None
) -> list[tuple[str, bool]]:
    """Call tools one after the other; return what the client gets: text, and whether it is an error."""
    from mcp import Client

    async def work() -> list[tuple[str, bool]]:
        async with Client(server, mode=mode) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["read", "drop", "pay", "leak"]
            results: list[Any] = [await client.call_tool(name, args, meta=meta) for name, args in calls]
        return [(result.content[0].text, bool(result.is_error)) for result in results]

    return asyncio.run(work())


def by_pipe(tmp_path: Path, *options: object, what: str = "") -> Any:
    """Return how a client starts a proxy, which starts the server."""
    from mcp import StdioServerParameters

    server = [sys.executable, "-m", "tests.frameworks.mcp_shop", what or str(tmp_path / "ran")]
    proxy = ["-m", "stream_guard.cli", "mcp-proxy", *map(str, options), "--", *server]
    root = Path(__file__).parents[2]
    return StdioServerParameters(command=sys.executable, args=proxy, cwd=root, env={"PYTHONPATH": str(root)})


def ran(tmp_path: Path) -> list[str]:
    return (tmp_path / "ran").read_text(encoding="utf-8").splitlines()


STORY = (("read", {"amount": 1}), ("drop", {"amount": 2}), ("pay", {"amount": 3}), ("leak", {"amount": 4}))


def check_story(said: list[tuple[str, bool]]) -> None:
    assert said[0] == ("read is done: ", False)
    assert [failed for _, failed in said] == [False, True, True, True]
    for (text, _), words in zip(said[1:], ("not allowed", "a person has to approve", "session is over"), strict=True):
        assert words in text


def test_over_pipes_a_gate_of_its_own_judges_every_call(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    options = ("--policy", tmp_path / "policy.yaml", "--history", tmp_path / "history.db")
    check_story(talk(by_pipe(tmp_path, *options), *STORY))
    assert ran(tmp_path) == ["read 1"]


@pytest.mark.long
def test_over_pipes_a_running_gate_is_asked_under_the_session_that_the_command_names(tmp_path: Path) -> None:
    with serving(tmp_path, POLICY) as (url, gate):
        check_story(talk(by_pipe(tmp_path, "--gate", url, "--session", "s1"), *STORY, mode="legacy"))
        assert [review.session_id for review in gate.reviews.listing("open")] == ["s1"]
    assert ran(tmp_path) == ["read 1"]


class Shop:
    """A real server over HTTP, a proxy before it, and what ran."""

    def __init__(self, url: str, ran: list[str]) -> None:
        self.url, self.ran = url, ran


@contextmanager
def shop_behind(relay: Relay, *, json_response: bool = False, server: Any = None) -> Iterator[Shop]:
    import httpx

    from stream_guard.mcp_proxy.http_relay import HttpRelay, make_proxy
    from tests.frameworks.mcp_shop import make_shop

    done: list[str] = []
    served = server or make_shop(done.append)
    with running(served.streamable_http_app(json_response=json_response), "/mcp") as upstream:
        client = httpx.AsyncClient(timeout=None)
        proxy = make_proxy(HttpRelay(upstream, relay, client, 2**20), ApiSettings())
        with running(proxy, "/mcp", client) as url:
            yield Shop(url, done)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("json_response", [False, True])
def test_over_http_every_call_is_judged_in_every_version(tmp_path: Path, mode: str, json_response: bool) -> None:
    with own_gate(tmp_path) as (own, _):
        relay = Relay(McpJudge(own), SessionKeys())
        with shop_behind(relay, json_response=json_response) as shop:
            check_story(talk(shop.url, *STORY, mode=mode, meta={META: "s1"}))
            assert shop.ran == ["read 1"]


def test_over_http_a_result_that_a_rule_forbids_is_withheld(tmp_path: Path) -> None:
    with own_gate(tmp_path) as (own, _), shop_behind(Relay(McpJudge(own), SessionKeys())) as shop:
        [(text, failed)] = talk(shop.url, ("read", {"amount": 1, "note": "hunter2"}))
        assert (text.startswith("Withheld: the tool has run"), failed, shop.ran) == (True, True, ["read 1 hunter2"])


def test_over_http_the_server_gets_the_arguments_that_a_rule_changed(tmp_path: Path) -> None:
    policy = """
rules:
  - id: cap
    kind: no_call
    params: {tool: read}
    when: {path: tool.args.amount, op: ">", value: 5}
    then: modify
    modify: [{path: amount, cap: 5}, {path: note, drop: true}]
"""
    with own_gate(tmp_path, policy) as (own, gate), shop_behind(Relay(McpJudge(own), SessionKeys())) as shop:
        [(_, failed)] = talk(shop.url, ("read", {"amount": 20, "note": "more"}))
        assert (failed, shop.ran, [action.word for action in gate.decisions]) == (False, ["read 5"], ["modify"])


def test_over_http_a_gate_that_is_killed_between_two_calls_shuts_the_second(tmp_path: Path) -> None:
    from mcp import Client

    from stream_guard.agent_hooks.client import GateClient, RunningGate

    with ExitStack() as alive:
        url, _ = alive.enter_context(serving(tmp_path, POLICY))
        relay = Relay(McpJudge(RunningGate(lambda: GateClient(url))), SessionKeys())

        async def work(address: str) -> list[Any]:
            async with Client(address) as client:
                first = await client.call_tool("read", {"amount": 1})
                await asyncio.to_thread(alive.close)
                return [first, await client.call_tool("read", {"amount": 2})]

        with shop_behind(relay) as shop:
            first, second = asyncio.run(work(shop.url))
            assert (bool(first.is_error), bool(second.is_error), shop.ran) == (False, True, ["read 1"])
            assert "could not judge this call" in second.content[0].text


def ask_model(server: Any) -> tuple[list[str], list[str]]:
    """Let a server ask the model of a real client; return what the model was asked, and what its tool said."""
    from mcp import Client
    from mcp.types import CreateMessageResult, TextContent

    asked: list[str] = []

    async def answer(context: Any, params: Any) -> Any:
        del context
        asked.append(params.messages[0].content.text)
        said = TextContent(type="text", text=asked[-1].upper())
        return CreateMessageResult(role="assistant", content=said, model="m")

    async def work() -> list[str]:
        async with Client(server, mode="legacy", sampling_callback=answer) as client:
            results: list[Any] = [await client.call_tool("ask", {"said": said}) for said in ("hello", "hunter2")]
        return [result.content[0].text for result in results]

    return asked, asyncio.run(work())


def test_over_http_what_a_server_asks_the_model_of_its_client_is_judged(tmp_path: Path) -> None:
    from tests.frameworks.mcp_shop import make_asker

    with (
        own_gate(tmp_path) as (own, _),
        shop_behind(Relay(McpJudge(own), SessionKeys()), server=make_asker()) as shop,
    ):
        asked, said = ask_model(shop.url)
    assert (asked, said[0]) == (["hello"], "the model says HELLO")
    assert "the client was not asked" in said[1]


@pytest.mark.long
def test_over_pipes_what_a_server_asks_the_model_of_its_client_is_judged(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    options = ("--policy", tmp_path / "policy.yaml", "--history", tmp_path / "history.db")
    asked, said = ask_model(by_pipe(tmp_path, *options, what="asker"))
    assert (asked, said[0]) == (["hello"], "the model says HELLO")
    assert "the client was not asked" in said[1]


def test_over_http_hostile_requests_reach_no_server(tmp_path: Path) -> None:
    import httpx

    with own_gate(tmp_path) as (own, _), shop_behind(Relay(McpJudge(own), SessionKeys())) as shop:
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}

        def post(body: bytes, **more: str) -> int:
            named = {name.replace("_", "-"): value for name, value in more.items()}
            return httpx.post(shop.url, content=body, headers=headers | named).status_code

        call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s","arguments":{"amount":1}}}'
        assert post(call % b"drop") == 200  # a tool error
        assert post(b"[" + call % b"drop" + b"]") == 400
        assert post(call % b"drop", mcp_name="read") == 400
        assert post(call % b"read", origin="https://evil.example") == 403
        assert post(call % b"read", host="evil.example") == 403
        assert post(b"x" * 2**21) == 413
        assert shop.ran == []


def test_over_http_a_server_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    import httpx

    from stream_guard.mcp_proxy.http_relay import HttpRelay, make_proxy

    with own_gate(tmp_path) as (own, gate):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            nobody = f"http://127.0.0.1:{closed.getsockname()[1]}/mcp"
        client = httpx.AsyncClient()
        relay = HttpRelay(nobody, Relay(McpJudge(own), SessionKeys(fixed="s1")), client, 2**20)
        with running(make_proxy(relay, ApiSettings()), "/mcp", client) as url:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {}}}
            answers = [httpx.post(url, json=body) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [502, 502]
        assert "cannot be reached" in answers[0].json()["error"]["message"]
        assert gate.decisions.total() == 2
