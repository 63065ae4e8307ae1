"""Every wire, held to the same cases: what runs, what does not, and a gate that is slow, killed or asked nonsense."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

import stream_guard as sg
from stream_guard.history.records import digest_of
from stream_guard.policy.load import load_policy
from stream_guard.serve.access import LocalDoor
from stream_guard.serve.app import OwnGate
from tests.integration.test_serve import listening
from tests.parts import import_part
from tests.wires.clients import REFUSED, RUNS, SECRET, SILENT, WIRES, Acs, GatePlace, Heard, Wire, clients
from tests.wires.gate import POLICY, REGISTRY, OpenedGate, opened_gate, running

DOCS = Path(__file__).parents[2] / "docs" / "wires.md"
NAMES = [wire.__name__ for wire in WIRES]
OURS = ["Hook", "Proxy", "PipedProxy"]  # whose client is ours too, so that we say what silence means
# What two readers could read as two calls, what names no tool, and what is no JSON.
HOSTILE = [
    b'{"name":"read","name":"drop","arguments":{}}',
    b'{"name":"read","Name":"drop","arguments":{}}',
    b'{"name":"read","arguments":{},"Arguments":{"amount":1}}',
    b'{"name":7,"arguments":{}}',
    b'{"name":["drop"],"arguments":{}}',
    b'{"arguments":{}}',
    b'{"name":"read","arguments":{"amount":NaN}}',
    b'{"name":"read","arguments":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"name":"read"',
    b"[]",
    b"null",
    b"\xff",
    b"",
]


class World(NamedTuple):
    """A gate, and a client of every wire to it."""

    gate: OpenedGate
    wires: dict[str, Wire]


@contextmanager
def asked(folder: Path, policy: str = POLICY, *, timeout: float = 60, **api: Any) -> Iterator[World]:
    """Let a gate in this process answer every wire; clients of ours wait so many seconds for it."""
    import_part("grpc")
    from stream_guard.serve.grpc_gateways import GrpcGateways

    (folder / "secret").write_bytes(SECRET)
    with ExitStack() as opened:
        gate = opened.enter_context(opened_gate(folder, policy, acs_secret_file=folder / "secret", **api))
        url = opened.enter_context(running(gate.app()))
        over_grpc = GrpcGateways(OwnGate(gate.service, gate.decoder), LocalDoor(), gate.service.settings, 0)
        opened.callback(over_grpc.close)
        yield World(gate, opened.enter_context(clients(GatePlace(url, over_grpc.port, folder, timeout))))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with asked(tmp_path_factory.mktemp("wires"), budget=60) as opened:  # a busy machine is not what is tried here
        yield opened


def new_session() -> str:
    return str(uuid4())


def table() -> dict[str, list[str]]:
    """Return the rows of the table that says what happens when a gate is slow, down or asked nonsense."""
    text = DOCS.read_text(encoding="utf-8").partition("<!-- what wires do")[2].partition("\n\n")[2].partition("\n\n")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
    return {line[0]: line[1:] for line in lines}


def test_the_table_has_a_row_for_every_wire() -> None:
    assert set(table()) == {wire.row for wire in WIRES}


@pytest.mark.parametrize("name", NAMES)
def test_an_allowed_call_runs_as_it_is(world: World, name: str) -> None:
    assert world.wires[name].call(new_session(), "read", amount=1) == Heard(RUNS, {"amount": 1})


@pytest.mark.parametrize("name", NAMES)
def test_a_denied_call_does_not_run_and_the_client_reads_why(world: World, name: str) -> None:
    heard = world.wires[name].call(new_session(), "drop")
    assert (heard.word, "drop is watched" in heard.said) == (REFUSED, True)


@pytest.mark.parametrize("name", NAMES)
def test_a_paused_call_runs_after_its_approval_and_no_other(world: World, name: str) -> None:
    wire, session = world.wires[name], new_session()
    heard = wire.call(session, "pay", amount=5)
    assert (heard.word, "a person has to approve" in heard.said) == (REFUSED, True)
    world.gate.approve_all()
    assert wire.call(session, "pay", amount=6).word == REFUSED
    assert wire.call(session, "pay", amount=5) == Heard(RUNS, {"amount": 5})


@pytest.mark.parametrize("name", NAMES)
def test_a_session_that_a_rule_ended_stays_ended(world: World, name: str) -> None:
    wire, session = world.wires[name], new_session()
    assert wire.call(session, "leak").word == REFUSED
    assert wire.call(session, "read").word == REFUSED


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_call_runs_changed_or_the_client_reads_what_would_pass(world: World, name: str) -> None:
    wire = world.wires[name]
    heard = wire.call(new_session(), "refund", amount=250)
    if wire.modifies:
        assert (heard.word, heard.args) == (RUNS, {"amount": 100})
    else:
        assert (heard.word, "amount of at most 100" in heard.said) == (REFUSED, True)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_tool_got_what_the_audit_says_and_what_a_replay_finds_are_the_same(world: World, name: str) -> None:
    wire, session, came = world.wires[name], new_session(), {"text": "the key is sk-abc"}
    heard = wire.call(session, "note", **came)
    [record] = [one for one in world.gate.audited() if one["session_id"] == session]
    events = [event for event in world.gate.emitted if event.session_id == session]
    [call] = [event for event in events if isinstance(event, sg.ToolCall)]
    found = [finding.rule_id for finding in sg.evaluate(events, load_policy(POLICY, REGISTRY))]
    if wire.modifies:
        got = {"text": "the key is [masked]"}
        assert (heard.args, call.args, found) == (got, got, [])
        assert (record["action"], record["arguments_digest"]) == ("modify", digest_of(got))
        assert (record["asked_digest"], record["modified_by"]) == (digest_of(came), ["keys"])
        assert "sk-abc" not in json.dumps(record)
    else:
        assert (heard.word, call.args, found) == (REFUSED, came, ["keys"])
        assert (record["action"], record["arguments_digest"]) == ("block", digest_of(came))


def test_one_limit_counts_calls_of_every_wire(world: World) -> None:
    session = new_session()
    allowed = [world.wires[name].call(session, "read", amount=1).word for name in ("Proxy", "Hook", "Api")]
    assert allowed == [RUNS] * 3
    assert {name: wire.call(session, "read", amount=1).word for name, wire in world.wires.items()} == dict.fromkeys(
        NAMES, REFUSED
    )


def test_one_limit_counts_calls_of_every_wire_at_once(world: World) -> None:
    session = new_session()
    with ThreadPoolExecutor(len(NAMES)) as pool:
        heard = list(pool.map(lambda wire: wire.call(session, "read", amount=1).word, world.wires.values()))
    assert sorted(heard) == [REFUSED] * (len(NAMES) - 3) + [RUNS] * 3


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_read_does_not_run_and_the_wire_goes_on(world: World, name: str) -> None:
    wire = world.wires[name]
    heard = {params: wire.send(hostile(wire, params), {}).word for params in HOSTILE if is_for(wire, params)}
    assert heard == dict.fromkeys(heard, table()[wire.row][2])
    assert wire.call(new_session(), "read", amount=1).word == RUNS


def is_for(wire: Wire, params: bytes) -> bool:
    """Whether somebody else reads it again, and may read it otherwise: who asks about its own call does not."""
    name = type(wire).__name__
    if name == "Hook" and b'"name":7' in params:
        return False  # read as the tool 7, and judged as such
    return name not in ("Api", "Hook", "Acs") or not (b'"Name"' in params or b'"Arguments"' in params)


def hostile(wire: Wire, params: bytes) -> bytes:
    """Return parameters that cannot be read in the envelope of a wire."""
    name = type(wire).__name__
    if name == "ExtMcp":
        return params
    if name == "DockerGateway":
        return b'{"Params":' + params + b"}"
    if name in ("Api", "Hook"):
        tool, args = (b'"tool"', b'"args"') if name == "Api" else (b'"tool_name"', b'"tool_input"')
        more = b'{"session_id":"s1","hook_event_name":"PreToolUse","event_id":"e1",'
        renamed = params.replace(b'"name"', tool).replace(b'"arguments"', args)
        return more + renamed[1:] if renamed.startswith(b'{"') else renamed
    if isinstance(wire, Acs):
        signed = wire.signed(new_session(), "steps/toolCallRequest", "PARAMS")
        return signed.replace(b'"PARAMS"', b'{"tool":' + params + b"}")
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + params + b"}"


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with asked(tmp_path_factory.mktemp("slow"), timeout=0.5, budget=0.05) as opened:
        yield opened


@pytest.mark.parametrize("name", NAMES)
def test_a_gate_that_is_too_slow_lets_nothing_run(slow: World, name: str) -> None:
    wire = slow.wires[name]
    with slow.gate.held():
        assert wire.call(new_session(), "read", amount=1).word == table()[wire.row][0]


def test_a_gate_that_is_slow_and_open_lets_run_what_no_rule_may_stop(tmp_path: Path) -> None:
    policy = "rules: [{id: drop, kind: no_call, params: {tool: drop}, then: block}]"
    with asked(tmp_path, policy, timeout=0.5, budget=0.05, on_error="open") as world, world.gate.held():
        # Clients of ours tell the gate more than the call, wait for that, and have an `on_error` of their own.
        wires = [wire for name, wire in world.wires.items() if name not in OURS]
        looked, dropped = ({wire.call(new_session(), tool).word for wire in wires} for tool in ("look", "drop"))
    assert looked == {RUNS}
    assert RUNS not in dropped


@pytest.mark.parametrize("name", OURS)
def test_a_gate_that_says_nothing_is_a_no_where_the_client_is_ours(tmp_path: Path, name: str) -> None:
    [kind] = [wire for wire in WIRES if wire.__name__ == name]
    with socket.create_server(("127.0.0.1", 0)) as silent, ExitStack() as opened:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        heard = kind(GatePlace(url, 0, tmp_path, timeout=0.1), opened).call(new_session(), "read", amount=1)
    assert (heard.word, "did not answer within" in heard.said) == (REFUSED, True)


def test_a_gate_that_is_killed_while_all_wires_wait_says_yes_to_none(tmp_path: Path) -> None:
    import_part("grpc")
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "secret").write_bytes(SECRET)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {"STREAM_GUARD_API__GRPC_PORT": str(port), "STREAM_GUARD_API__ACS_SECRET_FILE": "secret"}
    command = ("serve", "--policy", "policy.yaml", "--port", "0", "--history", "history.db")
    wanted = {wire.__name__: table()[wire.row][1] for wire in WIRES}
    with (
        listening(command, variables, tmp_path) as server,
        clients(GatePlace(server.url, port, tmp_path)) as wires,
        ThreadPoolExecutor(len(wires)) as pool,
    ):

        def ask_all(meanwhile: Callable[[], None] = lambda: None) -> dict[str, str]:
            asking = {name: pool.submit(wire.call, new_session(), "look", amount=1) for name, wire in wires.items()}
            meanwhile()
            return {name: heard.result().word for name, heard in asking.items()}

        assert ask_all() == dict.fromkeys(wires, RUNS)
        server.process.send_signal(signal.SIGSTOP)
        assert ask_all(server.kill) == wanted, "in the middle"
        assert ask_all() == wanted, "afterwards"
    assert set(wanted.values()) == {REFUSED, SILENT}
