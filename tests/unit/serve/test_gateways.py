"""Gateways that ask over HTTP: Envoy's ext_authz, and interceptors of Docker's MCP gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag
from typing import Any

import httpx
import pytest

from stream_guard.serve.access import SharedDoor
from tests.wires.gate import POLICY, OpenedGate

TOKEN = "a token that is long enough"


class Gateway(OpenedGate):
    """The application as a gateway asks it."""

    def __init__(self, folder: Path, policy: str = POLICY, **api: Any) -> None:
        super().__init__(folder, policy, **api)
        self.served = self.app(SharedDoor(TOKEN))

    def ask(self, path: str, body: bytes, method: str = "POST", **headers: str) -> httpx.Response:
        """Ask with the credentials of a client, and the gateway's token beside them."""
        named = {"authorization": "Bearer of-the-client", "host": "shop.example", "x-stream-guard-token": TOKEN}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}

        async def work() -> httpx.Response:
            transport = httpx.ASGITransport(self.served, raise_app_exceptions=False)
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


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    opened = Gateway(tmp_path)
    yield opened
    opened.close()


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


def test_a_gate_without_its_history_is_shut_for_every_gateway(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    gateway.database.close()
    assert gateway.authz("read").status_code == 403
    assert gateway.docker({"name": "read", "arguments": {}})["isError"] is True
    gateway.service.close()


@pytest.mark.parametrize("key", ["Params", "params"])
def test_docker_hears_nothing_for_a_yes_and_a_result_for_a_no(gateway: Gateway, key: str) -> None:
    assert gateway.docker({"name": "read", "arguments": {}}, key) is None
    assert gateway.docker({"name": "drop", "arguments": {"a": 1}}, key)["isError"] is True


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
        transport = httpx.ASGITransport(flooded.served)
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
