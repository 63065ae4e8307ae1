"""Gateways that ask over gRPC: what is theirs alone, beside the cases of every wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from stream_guard.serve.access import LocalDoor, SharedDoor
from stream_guard.serve.app import OwnGate
from tests.parts import import_part
from tests.unit.serve.test_gateways import TOKEN
from tests.wires.gate import POLICY, OpenedGate
from tests.wires.protobuf import (
    EXT_AUTHZ,
    EXT_MCP_REQUEST,
    EXT_MCP_RESPONSE,
    auth_request,
    field,
    fields,
    mcp_request,
    struct,
)


class Channel(OpenedGate):
    """A server with a gate, and a client that sends it bytes."""

    def __init__(self, folder: Path, policy: str = POLICY, door: Any = None, **api: Any) -> None:
        grpc = import_part("grpc")

        from stream_guard.serve.grpc_gateways import GrpcGateways

        super().__init__(folder, policy, **api)
        own = OwnGate(self.service, self.decoder)
        self.server = GrpcGateways(own, door or LocalDoor(), self.service.settings, 0)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.port}")

    def send(self, method: str, body: bytes, **metadata: str) -> dict[int, Any]:
        """Send bytes, and read the fields of the answer."""
        named = [(name.replace("_", "-"), value) for name, value in metadata.items()]
        return fields(self.channel.unary_unary(method)(body, metadata=named))

    def call(self, tool: str, session: str = "s1", **metadata: str) -> dict[int, Any]:
        """Ask as agentgateway does about a call."""
        params = json.dumps({"name": tool, "arguments": {}})
        return self.send(EXT_MCP_REQUEST, mcp_request(params, session=session), **metadata)

    def close(self) -> None:
        """Close what was opened."""
        self.channel.close()
        self.server.close()
        super().close()


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Channel]:
    opened = Channel(tmp_path)
    yield opened
    opened.close()


def test_agentgateway_sessions_have_limits_of_their_own(channel: Channel) -> None:
    assert [list(channel.call("read")) for _ in range(4)] == [[1], [1], [1], [3]]
    assert channel.call("read", session="s2") == {1: b""}


def test_agentgateway_results_are_judged_and_other_requests_pass(channel: Channel) -> None:
    def told(said: str) -> dict[int, Any]:
        result = json.dumps({"content": [{"type": "text", "text": said}]})
        return channel.send(
            EXT_MCP_RESPONSE, field(2, "tools/call") + field(3, struct("session", "s1")) + field(4, result)
        )

    assert told("fine") == {1: b""}
    assert b"Withheld" in fields(told("it is hunter2")[3])[2]
    assert channel.send(EXT_MCP_REQUEST, mcp_request("", "tools/list")) == {1: b""}


def test_agentgateway_is_told_apart_what_is_not_allowed_and_what_cannot_be_read(channel: Channel) -> None:
    denied, invalid = 1, 3
    assert fields(channel.call("drop")[3])[1] == denied
    assert fields(channel.send(EXT_MCP_REQUEST, mcp_request("{"))[3])[1] == invalid


def test_envoy_hears_a_status_and_a_body_for_its_client(channel: Channel) -> None:
    def authz(body: str, method: str = "POST", **headers: str) -> dict[int, Any]:
        return channel.send(EXT_AUTHZ, auth_request(body, method, **headers))

    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "drop", "arguments": {}}}
    denied = authz(json.dumps(message), mcp_session_id="m1")
    assert fields(denied[1])[1] == 7
    answer = fields(denied[2])
    assert (fields(answer[1])[1], json.loads(answer[3])["id"]) == (403, 1)
    assert 2 not in authz("", "GET")
    message["params"] = {"name": "read", "arguments": {}}
    assert 2 not in authz(json.dumps(message), mcp_session_id="m1")
    for headers in ({"mcp_name": "drop"}, {"x_envoy_auth_partial_body": "true"}):
        assert 2 in authz(json.dumps(message), **headers)


def test_a_gateway_without_a_token_is_refused(tmp_path: Path) -> None:
    grpc = import_part("grpc")
    channel = Channel(tmp_path, door=SharedDoor(TOKEN))
    for shown in ({}, {"x_stream_guard_token": "guessed"}):
        with pytest.raises(grpc.RpcError, match="x-stream-guard-token"):
            channel.call("read", **shown)
    assert channel.call("read", x_stream_guard_token=TOKEN) == {1: b""}
    channel.close()


def test_a_flood_and_a_body_that_is_too_large_are_refused(tmp_path: Path) -> None:
    grpc = import_part("grpc")
    channel = Channel(tmp_path, max_in_flight=1, max_body_bytes=1000, budget=60)
    with pytest.raises(grpc.RpcError) as large:
        channel.send(EXT_MCP_REQUEST, mcp_request("x" * 2000))
    assert large.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    ask = channel.channel.unary_unary(EXT_MCP_REQUEST)
    body = mcp_request(json.dumps({"name": "read", "arguments": {}}), session="s1")
    answered: Queue[Any] = Queue()
    with channel.held():
        for _ in range(4):
            ask.future(body).add_done_callback(answered.put)
        codes = [answered.get().code() for _ in range(3)]
    assert codes == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 3
    assert answered.get().code() is grpc.StatusCode.OK
    channel.close()
