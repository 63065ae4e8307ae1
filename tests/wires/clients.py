"""One small client for each wire, and what each of them takes an answer for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Final, NamedTuple
from uuid import uuid4

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from stream_guard.agent_hooks.asking import refusal
from stream_guard.agent_hooks.client import GateClient, RunningGate
from stream_guard.mcp_proxy.http_relay import HttpRelay, make_proxy
from stream_guard.mcp_wire.judge import META, McpJudge, SessionKeys
from stream_guard.mcp_wire.relay import Relay
from stream_guard.serve.acs import session_key, sign
from stream_guard.settings import ApiSettings
from tests import plain_http, processes
from tests.parts import import_part
from tests.wires import protobuf
from tests.wires.gate import running

RUNS, REFUSED, PUT_OFF, SILENT = "runs", "refused", "put off", "no answer"
SECRET: Final = b"a secret that both sides have"
_LARGEST: Final = 2**20
# A server that answers each request with the arguments that it got, and asks nothing.
_ECHO: Final = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    got = json.dumps(asked["params"]["arguments"])
    result = {"content": [{"type": "text", "text": got}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


class Heard(NamedTuple):
    """What a client takes an answer for, the arguments that its tool runs with, and the words."""

    word: str
    args: Any = None
    said: str = ""


class GatePlace(NamedTuple):
    """Where a gate is asked, and how long clients of our own wait for it."""

    url: str
    grpc_port: int
    folder: Path
    timeout: float = 30.0


class Wire:
    """A wire. ``row`` is its row in the table of the docs; ``modifies``: the client can run a changed call."""

    row: ClassVar[str]
    modifies: ClassVar[bool] = False

    def __init__(self, place: GatePlace, opened: ExitStack) -> None:
        self.place, self.opened = place, opened

    def call(self, session: str, tool: str, **args: Any) -> Heard:
        """Ask about a call."""
        message = mcp_call(tool, args, session)
        return self.send(json.dumps(message).encode(), args)

    def send(self, body: bytes, args: Any = None) -> Heard:
        """Send bytes where the client sends a message of MCP."""
        raise NotImplementedError

    def post(self, path: str, body: bytes, read: Callable[[httpx.Response], Heard], **headers: str) -> Heard:
        """Post to the gate; no answer where the connection breaks."""
        try:
            answer = plain_http.post(
                f"{self.place.url}{path}",
                content=body,
                headers={"content-type": "application/json", **headers},
                timeout=60,
            )
        except httpx.HTTPError as error:
            return Heard(SILENT, said=str(error))
        return read(answer)


def mcp_call(tool: str, args: Any, session: str) -> dict[str, Any]:
    """Return a request of MCP that names its session."""
    params = {"name": tool, "arguments": args, "_meta": {META: session}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


class Api(Wire):
    """A program of one's own."""

    row, modifies = "API", True

    def call(self, session: str, tool: str, **args: Any) -> Heard:
        """Ask about a call."""
        asked = {"session_id": session, "event_id": uuid4().hex, "tool": tool, "args": args, "may_modify": True}
        return self.send(json.dumps(asked).encode(), args)

    def send(self, body: bytes, args: Any = None) -> Heard:
        """Ask ``/v1/check``."""

        def read(answer: httpx.Response) -> Heard:
            said = answer.json()
            if answer.status_code == 200 and said["action"] in ("allow", "modify"):
                return Heard(RUNS, said.get("args", args))
            return Heard(REFUSED, said=refusal(said) if answer.status_code == 200 else answer.text)

        return self.post("/v1/check", body, read)


class Hook(Wire):
    """A coding agent that starts the command of its hook."""

    row, modifies = "hook", True

    def call(self, session: str, tool: str, **args: Any) -> Heard:
        """Start the command before a tool."""
        payload: dict[str, Any] = {"session_id": session, "hook_event_name": "PreToolUse", "tool_name": tool}
        payload |= {"tool_input": args, "tool_use_id": uuid4().hex, "cwd": "/"}
        return self.send(json.dumps(payload).encode(), args)

    def send(self, body: bytes, args: Any = None) -> Heard:
        """Start the command with this on its standard input."""
        options = ("--gate", self.place.url, "--event", "PreToolUse", "--timeout", self.place.timeout)
        env = {"XDG_STATE_HOME": str(self.place.folder)}
        done = processes.run("hook", "claude-code", *options, stdin=body, env=env)
        said = json.loads(done.stdout)["hookSpecificOutput"] if done.stdout.strip() else {}
        if done.returncode or said.get("permissionDecision") not in (None, "allow"):
            return Heard(REFUSED, said=f"{said.get('permissionDecisionReason')} {done.stderr.decode()}")
        return Heard(RUNS, said.get("updatedInput", args))


class Proxy(Wire):
    """A client of MCP before the proxy over HTTP, behind which is a server that says what it got."""

    row, modifies = "MCP proxy", True

    def __init__(self, place: GatePlace, opened: ExitStack) -> None:
        super().__init__(place, opened)
        upstream = opened.enter_context(
            running(Starlette(routes=[Route("/mcp", answer_with_arguments, methods=["POST"])]), "/mcp")
        )
        gate = RunningGate(lambda: GateClient(place.url, timeout=place.timeout))
        client = plain_http.async_client(timeout=None)
        relay = HttpRelay(upstream, Relay(McpJudge(gate), SessionKeys()), client, _LARGEST)
        self._url = opened.enter_context(running(make_proxy(relay, ApiSettings()), "/mcp", client))
        self._http = opened.enter_context(plain_http.client(timeout=60))

    def send(self, body: bytes, args: Any = None) -> Heard:
        """Post a message to the proxy."""
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        return _of_proxy(self._http.post(self._url, content=body, headers=headers).json())


class PipedProxy(Wire):
    """A client of MCP that has started the proxy in place of its server."""

    row, modifies = "MCP proxy", True

    def __init__(self, place: GatePlace, opened: ExitStack) -> None:
        super().__init__(place, opened)
        options = ("--gate", place.url, "--timeout", place.timeout, "--", sys.executable, "-S", "-c", _ECHO)
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process: Any = opened.enter_context(processes.start("mcp-proxy", *options, **pipes))
        self._sent, self._received, self._lock = process.stdin, process.stdout, Lock()

    def send(self, body: bytes, args: Any = None) -> Heard:
        """Write a line, and read one."""
        with self._lock:
            self._sent.write(body.replace(b"\n", b" ") + b"\n")
            self._sent.flush()
            return _of_proxy(json.loads(self._received.readline()))


async def answer_with_arguments(request: Request) -> JSONResponse:
    """Answer a call of a tool with the arguments that came."""
    asked = await request.json()
    result = {"content": [{"type": "text", "text": json.dumps(asked["params"]["arguments"])}]}
    return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result})


def _of_proxy(said: Mapping[str, Any]) -> Heard:
    if "error" in said:
        return Heard(REFUSED, said=said["error"]["message"])
    text = said["result"]["content"][0]["text"]
    return Heard(REFUSED, said=text) if said["result"].get("isError") else Heard(RUNS, json.loads(text))


class Acs(Wire):
    """A client of the Agent Control Standard, which signs, and shakes hands before it asks in a session."""

    row, modifies = "Agent Control Standard", True

    def call(self, session: str, tool: str, **args: Any) -> Heard:
        """Ask about a call."""
        method = "steps/toolCallRequest"
        hello = {"acs_versions_supported": ["0.1.0"], "methods_implemented": [method], "provenance_producer": "none"}
        greeted = self.send(self.signed(session, "handshake/hello", {**hello, "transports_supported": ["http"]}))
        if greeted.word == SILENT:
            return greeted
        wrapped = {name: {"value": value} for name, value in args.items()}
        return self.send(self.signed(session, method, {"tool": {"name": tool}, "arguments": wrapped}), args)

    def signed(self, session: str, method: str, payload: Any) -> bytes:
        """Return a request with its signature."""
        params = {"acs_version": "0.1.0", "request_id": str(uuid4()), "payload": payload}
        params |= {"timestamp": datetime.now(UTC).isoformat(), "metadata": {"agent_id": "bot", "session_id": session}}
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return json.dumps(sign(asked, session_key(SECRET, session))).encode()

    def send(self, body: bytes, args: Any = None) -> Heard:
        """Post to ``/acs``."""
        return self.post("/acs", body, lambda answer: self._read(answer.json(), args))

    @staticmethod
    def _read(answer: Mapping[str, Any], args: Any) -> Heard:
        said = answer.get("result") or {"decision": "deny", "reasoning": answer["error"]["message"]}
        if said["decision"] == "allow":
            return Heard(RUNS, args)
        if said["decision"] == "modify":
            return Heard(RUNS, {**args, **said["modifications"]["parameter_overrides"]})
        return Heard(PUT_OFF if said["decision"] == "defer" else REFUSED, said=said["reasoning"])


class EnvoyHttp(Wire):
    """Envoy that asks over HTTP, with the body of the request."""

    row = "Envoy ext_authz"

    def send(self, body: bytes, args: Any = None) -> Heard:
        """Ask whether a request may go on."""

        def read(answer: httpx.Response) -> Heard:
            return Heard(RUNS, args) if answer.status_code == 200 else Heard(REFUSED, said=answer.text)

        return self.post("/v1/ext_authz/mcp", body, read)


class DockerGateway(Wire):
    """Docker's gateway with an interceptor: it looks at no status, and takes an empty answer for a yes."""

    row = "Docker MCP gateway"

    def call(self, session: str, tool: str, **args: Any) -> Heard:
        """Ask about a call."""
        return self.send(json.dumps({"Params": mcp_call(tool, args, session)["params"]}).encode(), args)

    def send(self, body: bytes, args: Any = None) -> Heard:
        """Ask before a call."""

        def read(answer: httpx.Response) -> Heard:
            return Heard(REFUSED, said=answer.json()["content"][0]["text"]) if answer.content else Heard(RUNS, args)

        return self.post("/v1/docker_mcp/before", body, read)


class _OverGrpc(Wire):
    """A gateway that asks over gRPC."""

    def __init__(self, place: GatePlace, opened: ExitStack) -> None:
        super().__init__(place, opened)
        self._grpc = import_part("grpc")
        self._channel = opened.enter_context(self._grpc.insecure_channel(f"127.0.0.1:{place.grpc_port}"))

    def ask(self, method: str, body: bytes) -> dict[int, Any] | Heard:
        """Return the fields of the answer; what a gateway hears where there is none."""
        try:
            return protobuf.fields(self._channel.unary_unary(method)(body, timeout=60))
        except self._grpc.RpcError as error:
            return Heard(SILENT, said=str(error))


class EnvoyGrpc(_OverGrpc):
    """Envoy that asks over gRPC."""

    row = "Envoy ext_authz"

    def send(self, body: bytes, args: Any = None) -> Heard:
        """Ask whether a request may go on."""
        answer = self.ask(protobuf.EXT_AUTHZ, protobuf.auth_request(body))
        if isinstance(answer, Heard):
            return answer
        if 2 not in answer:
            return Heard(RUNS, args)
        return Heard(REFUSED, said=protobuf.fields(answer[2])[3].decode())


class ExtMcp(_OverGrpc):
    """Agentgateway, which sends the parameters alone."""

    row, modifies = "ExtMcp", True

    def call(self, session: str, tool: str, **args: Any) -> Heard:
        """Ask about a call, of a session that the gateway's configuration names."""
        return self._asked({"name": tool, "arguments": args}, session)

    def send(self, body: bytes, args: Any = None) -> Heard:
        """Ask about parameters as they are."""
        return self._asked(body, "")

    def _asked(self, params: Any, session: str) -> Heard:
        body = params if isinstance(params, bytes) else json.dumps(params).encode()
        answer = self.ask(protobuf.EXT_MCP_REQUEST, protobuf.mcp_request(body, session=session))
        if isinstance(answer, Heard):
            return answer
        if 3 in answer:
            return Heard(REFUSED, said=protobuf.fields(answer[3])[2].decode())
        return Heard(RUNS, json.loads(answer.get(2) or body)["arguments"])


WIRES: Final[tuple[type[Wire], ...]] = (
    *(Api, Hook, Proxy, PipedProxy, Acs, EnvoyHttp, EnvoyGrpc, ExtMcp, DockerGateway),
)


@contextmanager
def clients(place: GatePlace) -> Iterator[dict[str, Wire]]:
    """Open a client of every wire."""
    with ExitStack() as opened:
        yield {wire.__name__: wire(place, opened) for wire in WIRES}
