"""Gateways that ask over HTTP: Envoy's ext_authz, and interceptors of Docker's MCP gateway."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag
from typing import Any

import httpx
import pytest

from stream_guard.guard.gate import Gate
from stream_guard.history.database import SqliteDatabase
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.serve.access import SharedDoor
from stream_guard.serve.app import make_app
from stream_guard.serve.service import Service
from stream_guard.settings import ApiSettings, Settings

REGISTRY = build_registry()
TOKEN = "a token that is long enough"
POLICY = """
rules:
  - {id: drop, kind: no_call, params: {tool: drop}, then: block, reason: drop is watched}
  - {id: pay, kind: no_call, params: {tool: pay}, then: pause}
  - {id: three, kind: max_calls, params: {tool: read, n: 3}, then: block}
  - {id: secret, kind: forbidden_text, params: {where: tool_result, pattern: hunter2}, then: block}
  - id: cap
    kind: no_call
    params: {tool: refund}
    when: {path: tool.args.amount, op: ">", value: 100}
    then: modify
    modify: [{path: amount, cap: 100}]
"""


class Gateway:
    """The application as a gateway asks it."""

    def __init__(self, folder: Path, **api: Any) -> None:
        self.database = SqliteDatabase(folder / "history.db")
        self.gate = Gate(load_policy(POLICY, REGISTRY), self.database)
        self.service = Service(self.gate, ApiSettings(**api))
        self.decoder = Assembly(Settings(), REGISTRY).make_decoder("native")
        self.app = make_app(self.service, self.decoder, SharedDoor(TOKEN))

    def ask(self, path: str, body: bytes, method: str = "POST", **headers: str) -> httpx.Response:
        """Ask with the credentials of a client, and the gateway's token beside them."""
        named = {"authorization": "Bearer of-the-client", "host": "shop.example", "x-stream-guard-token": TOKEN}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}

        async def work() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
                return await client.request(method, path, content=body, headers=named)

        return asyncio.run(work())

    def authz(self, tool: str, path: str = "/v1/ext_authz/mcp", session: str = "m1", **args: Any) -> httpx.Response:
        """Ask as Envoy does about a call."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": args}}
        return self.ask(path, json.dumps(message).encode(), mcp_session_id=session)

    def docker(self, params: Any, key: str = "Params", when: str = "before") -> Any:
        """Ask as an interceptor does; return the result that takes the place of the call, None for none."""
        answer = self.ask(f"/v1/docker_mcp/{when}?session=desk", json.dumps({key: params}).encode())
        assert answer.status_code == 200
        return answer.json() if answer.content else None

    def close(self) -> None:
        """Close what was opened."""
        self.service.close()
        self.database.close()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    opened = Gateway(tmp_path)
    yield opened
    opened.close()


def test_envoy_hears_yes_no_and_wait(gateway: Gateway) -> None:
    allowed, denied, paused = (gateway.authz(tool) for tool in ("read", "drop", "pay"))
    assert (allowed.status_code, allowed.content) == (200, b"")
    assert (denied.status_code, paused.status_code) == (403, 403)
    assert "drop is watched" in denied.json()["error"]["message"]
    assert "a person has to approve" in paused.json()["error"]["message"]
    [review] = gateway.gate.reviews.listing("open")
    gateway.gate.reviews.approve(review.id, by="ada", arguments_digest=review.arguments_digest)
    assert gateway.authz("pay").status_code == 200


def test_envoy_cannot_change_a_call_and_is_told_what_would_pass(gateway: Gateway) -> None:
    refused = gateway.authz("refund", amount=250)
    assert refused.status_code == 403
    assert "amount of at most 100" in refused.json()["error"]["message"]
    assert gateway.authz("refund", amount=100).status_code == 200


def test_envoy_sessions_have_limits_of_their_own(gateway: Gateway) -> None:
    assert [gateway.authz("read").status_code for _ in range(4)] == [200, 200, 200, 403]
    assert gateway.authz("read", session="m2").status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS"])
def test_envoy_may_pass_on_what_carries_no_call(gateway: Gateway, method: str) -> None:
    assert gateway.ask("/v1/ext_authz", b"", method).status_code == 200


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", {}),
        (b"{", {}),
        (b"[]", {}),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}', {}),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"drop","name":"read"}}', {}),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}', {}),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}', {"mcp_name": "drop"}),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', {"x_envoy_auth_partial_body": "true"}),
    ],
)
def test_envoy_may_not_pass_on_what_cannot_be_read(gateway: Gateway, body: bytes, headers: dict[str, str]) -> None:
    assert gateway.ask("/v1/ext_authz/mcp", body, **headers).status_code == 403


def test_a_gateway_without_a_token_is_refused(gateway: Gateway) -> None:
    assert gateway.ask("/v1/ext_authz/mcp", b"{}", x_stream_guard_token="guessed").status_code == 401
    assert gateway.ask("/v1/docker_mcp/before", b"{}", x_stream_guard_token="guessed").content != b"", "empty is a yes"


def test_a_gate_that_is_slow_or_has_no_history_is_shut_for_every_gateway(tmp_path: Path) -> None:
    slow = Gateway(tmp_path, budget=0.01)
    slow.service.submit(time.sleep, 0.2)
    assert slow.authz("read").status_code == 403
    slow.service.submit(time.sleep, 0.2)
    assert slow.docker({"name": "read", "arguments": {}})["isError"] is True
    slow.service.submit(int).result()
    slow.database.close()
    assert slow.authz("read").status_code == 403
    assert slow.docker({"name": "read", "arguments": {}})["isError"] is True
    slow.service.close()


@pytest.mark.parametrize("key", ["Params", "params"])
def test_docker_hears_nothing_for_a_yes_and_a_result_for_a_no(gateway: Gateway, key: str) -> None:
    assert gateway.docker({"name": "read", "arguments": {}}, key) is None
    for tool, words in (("drop", "drop is watched"), ("pay", "a person has to approve")):
        refused = gateway.docker({"name": tool, "arguments": {"a": 1}}, key)
        assert refused["isError"] is True
        assert words in refused["content"][0]["text"]
    refused = gateway.docker({"name": "refund", "arguments": {"amount": 250}}, key)
    assert "amount of at most 100" in refused["content"][0]["text"]


@pytest.mark.parametrize(
    "data", [b"", b"{", b"7", b"{}", b'{"Params":{},"params":{}}', b'{"Params":{"name":["drop"]}}', b"\xff"]
)
def test_docker_never_hears_nothing_about_what_cannot_be_read(gateway: Gateway, data: bytes) -> None:
    answer = gateway.ask("/v1/docker_mcp/before", data)
    assert answer.json()["isError"] is True


def test_docker_results_that_a_rule_forbids_are_replaced(gateway: Gateway) -> None:
    path = "/v1/docker_mcp/after?session=desk"
    assert gateway.ask(path, b'{"content":[{"type":"text","text":"fine"}]}').content == b""
    told = gateway.ask(path, b'{"content":[{"type":"text","text":"it is hunter2"}]}').json()
    assert (told["isError"], told["content"][0]["text"].startswith("Withheld")) == (True, True)
    assert gateway.ask(path, b"{").json()["isError"] is True


def test_a_flood_of_one_gateway_is_refused_and_keeps_no_reviewer_out(tmp_path: Path) -> None:
    flooded = Gateway(tmp_path, max_in_flight=2)
    go = Flag()
    flooded.service.submit(go.wait)
    headers = {"x-stream-guard-token": TOKEN}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read"}}

    async def work() -> list[int]:
        transport = httpx.ASGITransport(flooded.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gate", headers=headers) as client:
            waiting = [asyncio.create_task(client.post("/v1/ext_authz", json=message)) for _ in range(2)]
            await asyncio.sleep(0)  # both are on their way before the others ask
            more = [await client.post(path, json=message) for path in ("/v1/ext_authz/mcp", "/v1/docker_mcp/before")]
            go.set()
            reviews = await client.get("/v1/reviews")
            assert all(answer.content for answer in more), "for Docker's gateway nothing is a yes"
            return [answer.status_code for answer in (*more, reviews, *[await one for one in waiting])]

    assert asyncio.run(work()) == [503, 503, 200, 200, 200]
    flooded.close()
