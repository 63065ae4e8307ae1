"""How long each wire takes beside ``/v1/check``: ``python -m tests.bench.wires``.

One server, one client, one question after the other, in turns: what disturbs one wire disturbs all of them alike.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import httpx

from stream_guard.agent_hooks.client import GateClient
from stream_guard.mcp_proxy.running_gate import RunningGate
from stream_guard.mcp_wire.judge import McpJudge
from stream_guard.mcp_wire.relay import Relay
from stream_guard.mcp_wire.session_keys import SessionKeys
from stream_guard.serve.acs.envelope import session_key, sign
from stream_guard.serve.acs.steps import METHODS

ROUNDS = 400
SECRET = b"a secret that both sides have"
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

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=60, trust_env=False)
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

    def proxy(self) -> None:
        """Pass a call and its result through a relay that asks the server for both."""
        message = self._message()
        assert self.relay.from_client(json.dumps(message).encode()).forward
        result = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "fine"}]}}
        assert self.relay.from_server(json.dumps(result).encode())

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


def measure(url: str) -> dict[str, list[float]]:
    """Return how long each question took, by wire."""
    asker = Asker(url)
    wires: dict[str, Callable[[], None]] = {
        "`/v1/check`": asker.check,
        "`/v1/check`, modified": asker.modify,
        "Envoy ext_authz": asker.authz,
        "Docker MCP gateway": asker.docker,
        "hook over HTTP": asker.hook,
        "ACS": asker.acs,
        "MCP relay, call and result": asker.proxy,
    }
    taken: dict[str, list[float]] = {name: [] for name in wires}
    for turn in range(ROUNDS + 20):
        for name, ask in wires.items():
            began = time.perf_counter()
            ask()
            if turn >= 20:
                taken[name].append(time.perf_counter() - began)
    asker.http.close()
    return taken


def main() -> None:
    """Start a server, ask it, and print a table."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "policy.yaml").write_text(POLICY, encoding="utf-8")
        (Path(folder) / "secret").write_bytes(SECRET)
        command = [sys.executable, "-m", "stream_guard.cli", "serve", "--policy", "policy.yaml", "--port", "0"]
        environment = {**os.environ, "STREAM_GUARD_API__ACS_SECRET_FILE": "secret"}
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment)
        assert process.stderr is not None
        try:
            taken = measure(process.stderr.readline().removeprefix("listening at ").strip())
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    first = sorted(next(iter(taken.values())))
    print("| wire | p50 ms | p99 ms | p50 beside `/v1/check` |\n|---|---|---|---|")
    for name, times in taken.items():
        ordered = sorted(times)
        middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
        print(f"| {name} | {middle * 1e3:.2f} | {late * 1e3:.2f} | {middle / first[len(first) // 2]:.2f} |")


if __name__ == "__main__":
    main()
