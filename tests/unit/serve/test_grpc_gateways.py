"""Gateways that ask over gRPC, by a real client of gRPC: agentgateway's ExtMcp, and Envoy's ext_authz.

What the client sends is written byte for byte by the numbers of the published definitions, not by our own tables.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_guard.guard.gate import Gate
from stream_guard.history.database import SqliteDatabase
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.serve.access import LocalDoor, SharedDoor
from stream_guard.serve.own_gate import OwnGate
from stream_guard.serve.service import Service
from stream_guard.settings import ApiSettings, Settings
from tests.parts import import_part
from tests.unit.serve.test_gateways import POLICY, TOKEN

REGISTRY = build_registry()
CALL = "/agentgateway.dev.ext_mcp.ExtMcp/CheckRequest"
RESULT = "/agentgateway.dev.ext_mcp.ExtMcp/CheckResponse"
AUTH = "/envoy.service.auth.v3.Authorization/Check"


def field(number: int, value: bytes | str) -> bytes:
    """Return a field of bytes, a text or a message, as protobuf writes it."""
    raw = value.encode() if isinstance(value, str) else value
    size, length = b"", len(raw)
    while True:
        size += bytes([length & 0x7F | (0x80 if length > 0x7F else 0)])
        length >>= 7
        if not length:
            return bytes([number << 3 | 2]) + size + raw


def fields(raw: bytes) -> dict[int, Any]:
    """Return the fields of a message by number: bytes, or numbers."""
    found: dict[int, Any] = {}
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = raw[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(raw):
        key = varint()
        if key & 7 == 0:
            found[key >> 3] = varint()
        else:
            size = varint()
            found[key >> 3], place = raw[place : place + size], place + size
    return found


def struct(name: str, value: str) -> bytes:
    return field(1, field(1, name) + field(2, field(3, value)))


class Channel:
    """A server with a gate, and a client that sends it bytes."""

    def __init__(self, folder: Path, door: Any = None, **api: Any) -> None:
        import grpc

        from stream_guard.serve.grpc_gateways import GrpcGateways

        self.database = SqliteDatabase(folder / "history.db")
        self.gate = Gate(load_policy(POLICY, REGISTRY), self.database)
        settings = ApiSettings(**api)
        self.service = Service(self.gate, settings)
        own = OwnGate(self.service, Assembly(Settings(), REGISTRY).make_decoder("native"))
        self.server = GrpcGateways(own, door or LocalDoor(), settings, 0)
        self.is_down = False
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.server.port}")

    def send(self, method: str, body: bytes, **metadata: str) -> dict[int, Any]:
        named = [(name.replace("_", "-"), value) for name, value in metadata.items()]
        return fields(self.channel.unary_unary(method)(body, metadata=named))

    def call(self, tool: str, session: str = "s1", **args: Any) -> dict[int, Any]:
        params = json.dumps({"name": tool, "arguments": args})
        asked = field(1, "shop") + field(2, "tools/call") + field(3, struct("session", session)) + field(4, params)
        return self.send(CALL, asked)

    def authz(self, body: str, method: str = "POST", **headers: str) -> dict[int, Any]:
        listed = b"".join(field(3, field(1, name.replace("_", "-")) + field(2, one)) for name, one in headers.items())
        http = field(2, method) + listed + field(4, "/mcp") + (field(11, body) if body else b"")
        return self.send(AUTH, field(1, field(4, field(2, http))))

    def close(self) -> None:
        self.channel.close()
        if not self.is_down:
            self.server.close()
        self.service.close()
        self.database.close()


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Channel]:
    import_part("grpc")
    opened = Channel(tmp_path)
    yield opened
    opened.close()


def test_agentgateway_hears_pass_no_wait_and_other_arguments(channel: Channel) -> None:
    assert channel.call("read") == {1: b""}
    denied = fields(channel.call("drop")[3])
    assert (denied[1], b"drop is watched" in denied[2]) == (1, True)
    assert b"a person has to approve" in fields(channel.call("pay")[3])[2]
    [changed] = channel.call("refund", amount=250).items()
    assert (changed[0], json.loads(changed[1])) == (2, {"name": "refund", "arguments": {"amount": 100}})


def test_agentgateway_sessions_have_limits_of_their_own(channel: Channel) -> None:
    assert [list(channel.call("read")) for _ in range(4)] == [[1], [1], [1], [3]]
    assert channel.call("read", session="s2") == {1: b""}


def test_agentgateway_results_are_judged_and_other_requests_pass(channel: Channel) -> None:
    def told(said: str) -> dict[int, Any]:
        result = json.dumps({"content": [{"type": "text", "text": said}]})
        return channel.send(RESULT, field(2, "tools/call") + field(3, struct("session", "s1")) + field(4, result))

    assert told("fine") == {1: b""}
    assert b"Withheld" in fields(told("it is hunter2")[3])[2]
    assert channel.send(CALL, field(2, "tools/list")) == {1: b""}


@pytest.mark.parametrize("params", ["{", "[]", '{"name":"read","name":"drop"}', '{"Name":"drop"}', '{"name":7}', ""])
def test_agentgateway_may_not_pass_on_what_cannot_be_read(channel: Channel, params: str) -> None:
    asked = field(2, "tools/call") + (field(4, params) if params else b"")
    assert fields(channel.send(CALL, asked)[3])[1] == 3


def message(tool: str) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}})


def test_envoy_hears_yes_and_no_over_grpc(channel: Channel) -> None:
    assert 2 not in channel.authz(message("read"), mcp_session_id="m1")
    denied = channel.authz(message("drop"), mcp_session_id="m1")
    assert fields(denied[1])[1] == 7
    answer = fields(denied[2])
    assert (fields(answer[1])[1], b"drop is watched" in answer[3]) == (403, True)
    assert 2 not in channel.authz("", "GET")
    for body, headers in (("", {}), ("{", {}), (message("read"), {"mcp_name": "drop"})):
        assert 2 in channel.authz(body, **headers)


def test_a_slow_gate_one_without_a_token_and_one_that_is_gone_are_shut(tmp_path: Path) -> None:
    grpc = import_part("grpc")
    channel = Channel(tmp_path, SharedDoor(TOKEN), budget=0.01)
    with pytest.raises(grpc.RpcError, match="x-stream-guard-token"):
        channel.call("read")
    params = json.dumps({"name": "read", "arguments": {}})
    channel.service.submit(time.sleep, 0.2)
    answer = channel.send(CALL, field(2, "tools/call") + field(4, params), x_stream_guard_token=TOKEN)
    assert b"not judged" in fields(answer[3])[2]
    channel.server.close()
    channel.is_down = True
    with pytest.raises(grpc.RpcError) as gone:  # which a gateway takes for a no
        channel.call("read")
    assert gone.value.code() is grpc.StatusCode.UNAVAILABLE
    channel.close()
