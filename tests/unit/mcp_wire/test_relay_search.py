"""A search for messages that reach a server as another call than the gate was asked about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_guard.mcp_wire.judge import McpJudge, SessionKeys
from stream_guard.mcp_wire.relay import Relay
from stream_guard.serve.app import OwnGate
from tests.wires.gate import own_gate

NAMES = ("jsonrpc", "id", "method", "params", "name", "arguments", "result", "error", "_meta")
SPELLINGS = (str, str.upper, str.title, lambda name: name + " ", lambda name: name.replace("s", "\u017f"))
KEYS = st.builds(lambda name, spell: spell(name), st.sampled_from(NAMES), st.sampled_from(SPELLINGS))
LEAVES = st.sampled_from(["tools/call", "tools/list", "read", "drop", "2.0", "", 0, 1, -1, 1.5, True, None])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.lists(st.tuples(KEYS, inner), max_size=5), max_leaves=8
)


def written(value: Any) -> str:
    """Return JSON in which an object may have a key twice."""
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return "{" + ",".join(f"{json.dumps(key)}:{written(item)}" for key, item in value) + "}"
    return "[" + ",".join(map(written, value)) + "]" if isinstance(value, list) else json.dumps(value)


MEMBERS = st.lists(st.tuples(KEYS, VALUES), max_size=4)
CALL: list[tuple[str, Any]] = [("id", 7), ("method", "tools/call"), ("params", [("name", "read"), ("arguments", [])])]
MESSAGES = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda more, first: written([*more, *CALL] if first else [*CALL, *more]).encode(), MEMBERS, st.booleans()
    ),
    st.builds(lambda more: written([*CALL[:2], ("params", [*CALL[2][1], *more])]).encode(), MEMBERS),
    st.builds(lambda value: written(value).encode(), VALUES),
)


class Noted:
    """A gate, and what it was asked."""

    def __init__(self, gate: OwnGate) -> None:
        self._gate = gate
        self.asked: list[Any] = []

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Note a check, and ask the gate."""
        if path == "/v1/check":
            self.asked.append([body["tool"], body["args"]])
        return self._gate.post(path, body)


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with own_gate(Path(tmp_path_factory.mktemp("search"))) as (own, _):
        yield own


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(raw=MESSAGES)
def test_what_reaches_a_server_as_a_call_is_what_the_gate_was_asked_about(gate: OwnGate, raw: bytes) -> None:
    noted = Noted(gate)
    relay = Relay(McpJudge(noted, can_modify=False), SessionKeys())
    passed = relay.from_client(raw)
    assert not (passed.forward and passed.answer)
    if passed.forward:
        # As those read it that take no notice of case, and the last of two keys.
        sent = {key.casefold(): value for key, value in json.loads(passed.forward).items()}
        if sent.get("method") == "tools/call":
            params = {key.casefold(): value for key, value in sent["params"].items()}
            args = params.get("arguments")
            assert noted.asked == [[params["name"], {} if args is None else args]]
    relay.from_server(raw)
