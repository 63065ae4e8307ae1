"""How long each wire takes beside ``/v1/check``: ``python -m tests.bench.wires``.

One server, one client, one question after the other, in turns: what disturbs one wire disturbs all of them alike.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import grpc
import httpx

from stream_guard.agent_hooks.client import GateClient, RunningGate
from stream_guard.mcp_wire.judge import McpJudge, SessionKeys
from stream_guard.mcp_wire.relay import Relay
from stream_guard.serve.acs import METHODS, session_key, sign
from tests.wires import protobuf
from tests.wires.clients import RUNS, SECRET, GatePlace, PipedProxy, Proxy

ROUNDS = 400
POLICY = """
rules:
  - {id: drop, kind: no_call, params: {tool: drop}, then: block}
  - {id: many, kind: max_calls, params: {tool: read, n: 1000000}, then: block}
  - id: cap
    kind: no_call
    params: {tool: read}
    when: {path: tool.args.amount, op: ">", value: 100}
    then: modify
    modify: [{path: amount, cap: 100}]
"""


class Asker:
    """One client of a server, on every wire."""

    def __init__(self, place: GatePlace, opened: ExitStack) -> None:
        url = place.url
        self.http = opened.enter_context(httpx.Client(base_url=url, timeout=60, trust_env=False))
        self.channel = opened.enter_context(grpc.insecure_channel(f"127.0.0.1:{place.grpc_port}"))
        self.over_http, self.over_pipes = Proxy(place, opened), PipedProxy(place, opened)
        self.relay = Relay(McpJudge(RunningGate(lambda: GateClient(url))), SessionKeys(fixed="mcp"))
        self.number = 0
        self.session = str(uuid4())
        self.key = session_key(SECRET, self.session)
        hello: dict[str, Any] = {"acs_versions_supported": ["0.1.0"], "methods_implemented": [*METHODS]}
        hello |= {"transports_supported": ["http"], "provenance_producer": "none"}
        self._acs("handshake/hello", hello)

    def check(self, amount: int = 1, *, may_modify: bool = False) -> None:
        """Ask the API."""
        body = {"session_id": "api", "event_id": uuid4().hex, "tool": "read", "args": {"amount": amount}}
        said = self.http.post("/v1/check", json=body | ({"may_modify": True} if may_modify else {})).json()
        assert said["action"] == ("modify" if may_modify else "allow"), said

    def modify(self) -> None:
        """Ask the API about a call that it changes."""
        self.check(200, may_modify=True)

    def authz(self) -> None:
        """Ask as Envoy does."""
        answer = self.http.post("/v1/ext_authz/mcp", json=self._message(), headers={"mcp-session-id": "envoy"})
        assert answer.status_code == 200, answer.text

    def docker(self) -> None:
        """Ask as Docker's gateway does."""
        params = {"Params": {"name": "read", "arguments": {"amount": 1}}}
        assert self.http.post("/v1/docker_mcp/before?session=docker", json=params).content == b""

    def hook(self) -> None:
        """Ask as a coding agent does that posts its hooks."""
        payload: dict[str, Any] = {"session_id": "hook", "hook_event_name": "PreToolUse", "tool_name": "read"}
        payload |= {"cwd": "/", "tool_input": {"amount": 1}, "tool_use_id": uuid4().hex}
        assert self.http.post("/v1/hooks/claude-code", json=payload).json() == {}

    def acs(self) -> None:
        """Ask as a client of the Agent Control Standard does."""
        payload = {"tool": {"name": "read"}, "arguments": {"amount": {"value": 1}}}
        said = self._acs("steps/toolCallRequest", payload)
        assert said["result"]["decision"] == "allow", said

    def authz_grpc(self) -> None:
        """Ask as Envoy does over gRPC."""
        asked = protobuf.auth_request(json.dumps(self._message()), mcp_session_id="envoy over grpc")
        assert 2 not in self._grpc(protobuf.EXT_AUTHZ, asked)

    def ext_mcp(self) -> None:
        """Ask as agentgateway does."""
        asked = protobuf.mcp_request(json.dumps(self._message()["params"]), session="agentgateway")
        assert 1 in self._grpc(protobuf.EXT_MCP_REQUEST, asked)

    def proxied(self) -> None:
        """Call a server over HTTP, through the proxy before it."""
        assert self.over_http.call("proxy", "read", amount=1).word == RUNS

    def piped(self) -> None:
        """Call a server over pipes, through the proxy between them."""
        assert self.over_pipes.call("pipes", "read", amount=1).word == RUNS

    def relay_only(self) -> None:
        """Pass a call and its result through a relay that asks the server for both."""
        message = self._message()
        assert self.relay.from_client(json.dumps(message).encode()).forward
        result = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "fine"}]}}
        assert self.relay.from_server(json.dumps(result).encode()).forward

    def _grpc(self, method: str, asked: bytes) -> dict[int, Any]:
        return protobuf.fields(self.channel.unary_unary(method)(asked))

    def _message(self) -> dict[str, Any]:
        self.number += 1
        params = {"name": "read", "arguments": {"amount": 1}}
        return {"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": params}

    def _acs(self, method: str, payload: Any) -> Any:
        stamp = datetime.now(UTC).isoformat()
        params = {"acs_version": "0.1.0", "request_id": str(uuid4()), "timestamp": stamp, "payload": payload}
        params["metadata"] = {"agent_id": "bot", "session_id": self.session}
        asked = sign({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, self.key)
        return self.http.post("/acs", json=asked).json()


def measure(asker: Asker) -> dict[str, list[float]]:
    """Return how long each question took, by wire."""
    wires: dict[str, Callable[[], None]] = {
        "`/v1/check`": asker.check,
        "`/v1/check`, modified": asker.modify,
        "Envoy ext_authz, over HTTP": asker.authz,
        "Envoy ext_authz, over gRPC": asker.authz_grpc,
        "ExtMcp": asker.ext_mcp,
        "Docker MCP gateway": asker.docker,
        "hook over HTTP": asker.hook,
        "Agent Control Standard": asker.acs,
        "MCP relay in the process of the client, a call and its result": asker.relay_only,
        "MCP proxy over HTTP, a call, the server and its result": asker.proxied,
        "MCP proxy over pipes, a call, the server and its result": asker.piped,
    }
    taken: dict[str, list[float]] = {name: [] for name in wires}
    for turn in range(ROUNDS + 20):
        for name, ask in wires.items():
            began = time.perf_counter()
            ask()
            if turn >= 20:
                taken[name].append(time.perf_counter() - began)
    return taken


def main() -> None:
    """Start a server, ask it, and print a table."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "policy.yaml").write_text(POLICY, encoding="utf-8")
        (Path(folder) / "secret").write_bytes(SECRET)
        command = [sys.executable, "-m", "stream_guard.cli", "serve", "--policy", "policy.yaml", "--port", "0"]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment = {**os.environ, "STREAM_GUARD_API__ACS_SECRET_FILE": "secret"}
        environment["STREAM_GUARD_API__GRPC_PORT"] = str(port)
        before = os.getloadavg()[0]
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment)
        assert process.stderr is not None
        try:
            url = process.stderr.readline().removeprefix("listening at ").strip()
            with ExitStack() as opened:
                taken = measure(Asker(GatePlace(url, port, Path(folder)), opened))
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    load = f"load {before:.1f} before and {os.getloadavg()[0]:.1f} after"
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {load}, {ROUNDS} rounds\n")
    first = sorted(next(iter(taken.values())))
    print("| wire | p50 ms | p99 ms | p50 beside `/v1/check` |\n|---|---|---|---|")
    for name, times in taken.items():
        ordered = sorted(times)
        middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
        print(f"| {name} | {middle * 1e3:.2f} | {late * 1e3:.2f} | {middle / first[len(first) // 2]:.2f} |")


if __name__ == "__main__":
    main()
