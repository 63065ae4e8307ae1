"""The Guardian over HTTP, asked by a client of our own that signs: each must of ACS-Core is a test here.

Musts of the client (to emit hooks, to wait, to honour what is decided) are not ours to show.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from stream_guard.errors import SettingsError
from stream_guard.serve.access import SharedDoor
from stream_guard.serve.acs import METHODS, entry_hash, is_signed, read_secrets, request_hash, session_key, sign
from tests.wires.clients import SECRET
from tests.wires.gate import POLICY, OpenedGate

RULES = f"""{POLICY}
  - {{id: agents, kind: no_call, params: {{tool: subagentStart}}, then: block}}
  - {{id: words, kind: forbidden_text, params: {{where: response, pattern: hunter2}}, then: block}}
  - {{id: prompts, kind: forbidden_text, params: {{where: user, pattern: hunter2}}, then: block}}
  - {{id: owed, kind: must_call_once, params: {{tool: close}}, then: block}}
  - id: private
    kind: no_call
    params: {{tool: send}}
    when: {{path: tool.args.bcc, op: exists}}
    then: modify
    modify: [{{path: bcc, drop: true}}]
"""
HELLO = {
    "acs_versions_supported": ["0.1.0"],
    "methods_implemented": [*METHODS, "protocols/MCP/tools/call", "protocols/MCP/resources/read"],
    "transports_supported": ["http"],
    "provenance_producer": "none",
}


def stamp(seconds: float = 0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


class Client(OpenedGate):
    """An observed agent, and the server that it asks."""

    def __init__(self, folder: Path, policy: str = RULES, **api: Any) -> None:
        (folder / "secret").write_bytes(SECRET)
        super().__init__(folder, policy, **{"acs_secret_file": folder / "secret", **api})
        self.served = self.app(SharedDoor("a token that these clients do not have"))
        self.session = str(uuid4())
        self.key = session_key(SECRET, self.session)
        self.key_id = "default"

    def post(self, body: Any) -> httpx.Response:
        """Send something as it is."""

        async def work() -> httpx.Response:
            transport = httpx.ASGITransport(self.served, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://gate") as client:
                return await client.post("/acs", **({"content": body} if isinstance(body, bytes) else {"json": body}))

        return asyncio.run(work())

    def envelope(self, method: str, payload: Any = None, **params: Any) -> dict[str, Any]:
        """Return a request, not signed yet."""
        inner = {
            "acs_version": "0.1.0",
            "request_id": str(uuid4()),
            "timestamp": stamp(),
            "metadata": {"agent_id": "bot", "session_id": self.session},
            "payload": payload or {},
        }
        return {"jsonrpc": "2.0", "id": 7, "method": method, "params": inner | params}

    def ask(self, method: str, payload: Any = None, **params: Any) -> dict[str, Any]:
        """Ask with a signature; the answer is checked for its own."""
        asked = sign(self.envelope(method, payload, **params), self.key, self.key_id)
        answer = self.post(asked).json()
        assert is_signed(answer, self.key)
        assert answer["id"] == 7
        if "result" in answer:
            assert answer["result"]["request_id"] == asked["params"]["request_id"]
            assert (answer["result"]["type"], answer["result"]["acs_version"]) == ("final", "0.1.0")
        said: dict[str, Any] = answer.get("result") or answer["error"]
        return said

    def hello(self) -> dict[str, Any]:
        return self.ask("handshake/hello", HELLO)

    def call(self, tool: str, **args: Any) -> dict[str, Any]:
        wrapped = {name: {"value": value} for name, value in args.items()}
        return self.ask("steps/toolCallRequest", {"tool": {"name": tool}, "arguments": wrapped})


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    opened = Client(tmp_path)
    opened.hello()
    yield opened
    opened.close()


def test_handshake_says_what_is_judged_how_and_what_a_failure_means(client: Client) -> None:
    said = client.hello()
    assert {name: said[name] for name in said["payload"]} == said["payload"], "older clients read the payload"
    assert said["negotiated_version"] == "0.1.0"
    assert set(said["methods_evaluated"]) == set(HELLO["methods_implemented"])
    assert said["signature_algorithms_supported"] == ["HMAC-SHA256"]
    assert said["on_decision_failure"] == "deny"
    assert said["skew_window_ms"] == 300_000
    assert said["profiles_accepted"] == ["acs-core", "acs-audit"]
    fewer = client.ask("handshake/hello", {**HELLO, "profiles_supported": ["acs-core", "acs-trace"]})
    assert fewer["profiles_accepted"] == ["acs-core"]


@pytest.mark.parametrize("name", ["acs_versions_supported", "methods_implemented", "provenance_producer"])
def test_handshake_without_a_part_is_refused(client: Client, name: str) -> None:
    hello = {key: value for key, value in HELLO.items() if key != name}
    assert client.ask("handshake/hello", hello)["code"] == -32602


@pytest.mark.parametrize(("version", "code"), [("0.2.7", None), ("1.0.0", -32001), (7, -32001)])
def test_versions_of_the_same_major_are_taken_and_others_refused(client: Client, version: Any, code: Any) -> None:
    said = client.ask("handshake/hello", {**HELLO, "acs_versions_supported": [version]})
    assert said.get("code") == code


def test_a_method_that_was_not_negotiated_is_refused(tmp_path: Path) -> None:
    client = Client(tmp_path)
    assert client.call("read")["code"] == -32003
    client.ask("handshake/hello", {**HELLO, "methods_implemented": ["steps/sessionStart"]})
    assert client.call("read")["code"] == -32003
    assert client.ask("steps/sessionStart")["decision"] == "allow"
    client.close()


def test_the_four_dispositions_and_modify_have_what_they_need(client: Client) -> None:
    assert client.call("read", path="x")["decision"] == "allow"
    denied = client.call("drop")
    assert (denied["decision"], "drop is watched" in denied["reasoning"]) == ("deny", True)
    assert denied["policy_references"][0]["rule_id"] == "drop"
    asked = client.call("pay", amount=3)
    assert asked["decision"] == "ask"
    assert asked["ask_details"]["approver"]["type"] == "human"
    assert asked["ask_details"]["question"] == "pay is watched"
    assert asked["ask_details"]["timeout_seconds"] >= 1
    changed = client.call("refund", amount=250, to="bob")
    assert changed["decision"] == "modify"
    assert changed["modifications"] == {"parameter_overrides": {"amount": 100}}
    assert changed["reasoning"]


def test_what_a_person_approves_passes_once(client: Client) -> None:
    review = client.call("pay", amount=3)["policy_data"]["review"]
    [shown] = client.gate.reviews.listing("open")
    assert shown.id == review
    client.gate.reviews.approve(review, by="ada", arguments_digest=shown.arguments_digest)
    assert client.call("pay", amount=3)["decision"] == "allow"
    assert client.call("pay", amount=3)["decision"] == "ask"


def test_an_answer_that_is_late_is_deferred_with_a_denial_at_its_end_and_not_for_ever(tmp_path: Path) -> None:
    client = Client(tmp_path, budget=0.01)
    client.hello()
    with client.held():
        said = [client.call("drop") for _ in range(9)]
    client.close()
    assert said[0]["defer_details"]["timeout_decision"] == "deny"
    assert said[0]["defer_details"]["reason"] == "pending_dependency"
    assert [one["decision"] for one in said] == ["defer"] * 8 + ["deny"]


def test_a_session_that_a_rule_ended_is_refused_from_then_on(client: Client) -> None:
    assert client.call("leak")["decision"] == "deny"
    assert client.call("read")["code"] == -32000
    assert client.ask("steps/userMessage", {"content": "hi"})["code"] == -32000


def test_a_limit_counts_calls_of_the_session(client: Client) -> None:
    assert [client.call("read")["decision"] for _ in range(4)] == ["allow"] * 3 + ["deny"]


@pytest.mark.parametrize(
    ("method", "payload"),
    [
        ("steps/userMessage", {"content": [{"type": "text", "value": "{}"}]}),
        ("steps/agentTrigger", {"content": "{}"}),
        ("steps/agentResponse", {"content": [{"type": "text", "value": "{}"}]}),
        ("steps/toolCallResult", {"tool": {"name": "read"}, "outputs": [{"value": "{}"}], "exit_status": "success"}),
        ("steps/knowledgeRetrieval", {"results": ["{}"]}),
        ("protocols/MCP/resources/read", {"jsonrpc": "2.0", "id": 1, "result": {"contents": [{"text": "{}"}]}}),
    ],
)
def test_what_comes_in_and_goes_out_is_judged(client: Client, method: str, payload: Any) -> None:
    def filled(value: Any, word: str) -> Any:
        if isinstance(value, dict):
            return {key: filled(item, word) for key, item in value.items()}
        if isinstance(value, list):
            return [filled(item, word) for item in value]
        return value.replace("{}", word) if isinstance(value, str) else value

    assert client.ask(method, filled(payload, "hello"))["decision"] == "allow"
    denied = client.ask(method, filled(payload, "hunter2"))
    assert (denied["decision"], bool(denied["reasoning"])) == ("deny", True)


def test_sub_agents_and_wrapped_calls_are_judged_as_calls(client: Client) -> None:
    assert client.ask("steps/subagentStart", {"intent_derivation": "fresh"})["decision"] == "deny"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "drop", "arguments": {}}}
    assert client.ask("protocols/MCP/tools/call", message)["decision"] == "deny"
    assert client.ask("protocols/MCP/resources/read", message)["code"] == -32602
    message["params"] = {"name": "read", "arguments": {}}
    assert client.ask("protocols/MCP/tools/call", message)["decision"] == "allow"


def test_the_head_of_the_chain_is_published_and_can_be_recomputed(client: Client) -> None:
    head = ""
    for number, method in enumerate(("steps/sessionStart", "steps/turnStart", "steps/sessionEnd"), 1):
        asked = sign(client.envelope(method), client.key)
        params = asked["params"]
        entry = {
            "entry_id": str(number),
            "step_id": params["request_id"],
            "step_type": method,
            "request_hash": request_hash(params),
            "timestamp": params["timestamp"],
        }
        head = entry_hash(entry, head)
        assert client.post(asked).json()["result"]["chain_hash"] == head
    state = {"agent_id": "bot", "session_id": client.session, "session_state": {"chain_hash": "00" * 32}}
    assert client.ask("steps/sessionStart", chain_hash="00" * 32)["code"] == -32007
    assert client.ask("steps/sessionStart", metadata=state)["code"] == -32007
    assert client.ask("steps/sessionStart", chain_hash=head)["decision"] == "allow"


def test_a_request_is_taken_once_also_by_a_server_that_was_started_again(client: Client, tmp_path: Path) -> None:
    asked = sign(client.envelope("steps/sessionStart", nonce="n" * 16), client.key)
    assert client.post(asked).json()["result"]["decision"] == "allow"
    assert client.post(asked).json()["error"]["code"] == -32005
    assert client.ask("steps/sessionStart", nonce="n" * 16)["code"] == -32005
    hello = sign(client.envelope("handshake/hello", HELLO), client.key)
    assert [client.post(hello).json().get("error", {}).get("code") for _ in range(2)] == [None, -32005]
    again = Client(tmp_path)
    assert again.post(asked).json()["error"]["code"] == -32005
    again.close()


@pytest.mark.parametrize("told", [-301.0, 301.0, "yesterday", "2026-01-01T00:00:00", ""])
def test_a_time_outside_the_window_is_refused(client: Client, told: float | str) -> None:
    for method, payload in (("steps/sessionStart", {}), ("handshake/hello", HELLO)):
        said = client.ask(method, payload, timestamp=told if isinstance(told, str) else stamp(told))
        assert (said["code"], said["data"]["skew_window_ms"]) == (-32006, 300_000)


def test_what_is_not_signed_or_signed_for_another_session_is_refused(client: Client) -> None:
    plain = client.envelope("steps/sessionStart")
    other = sign(plain, session_key(SECRET, str(uuid4())))
    changed = sign(plain, client.key)
    changed["method"] = "steps/sessionEnd"
    for asked in (plain, other, changed, sign(client.envelope("handshake/hello", HELLO), b"x")):
        answer = client.post(asked).json()
        assert answer["error"]["code"] == -32004
        assert is_signed(answer, client.key), "a refusal without a signature could be anybody's"


def test_a_ping_is_always_answered_and_stands_in_no_chain(client: Client) -> None:
    client.call("leak")
    ping = client.envelope("system/ping", {"echo": "hi"})
    answer = client.post(ping).json()["result"]
    assert (answer["decision"], answer["payload"]["status"], answer["payload"]["echo"]) == ("allow", "ok", "hi")
    assert "chain_hash" not in answer
    wrong: list[Any] = [{}, None, {**ping["params"], "acs_version": "9.0.0"}, {"payload": 7}]
    assert {client.post({**ping, "params": one}).json()["result"]["decision"] for one in wrong} == {"allow"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b'{"method":"a","method":"b"}', -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b"{}", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"system/ping"}]', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"steps/sessionStart"}', -32600),
        (b'{"jsonrpc":"2.0","method":"steps/sessionStart"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"steps/sessionStart"}', -32600),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"steps/sessionStart"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"steps/sessionStart"}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"steps/sessionStart","params":{"metadata":{"session_id":"s1"}}}', -32602),
    ],
)
def test_what_is_no_request_is_refused_with_the_code_for_it(client: Client, body: bytes, code: int) -> None:
    assert client.post(body).json()["error"]["code"] == code


@pytest.mark.parametrize(
    ("method", "payload", "code"),
    [
        ("steps/made_up", {}, -32601),
        ("steps/toolCallRequest", {"tool": "drop"}, -32602),
        ("steps/toolCallRequest", {"tool": {"name": 7}}, -32602),
        ("steps/toolCallRequest", {"tool": {"name": "x"}, "arguments": []}, -32602),
        ("protocols/MCP/tools/call", {"Method": "tools/call"}, -32602),
    ],
)
def test_a_payload_that_is_none_is_refused(client: Client, method: str, payload: Any, code: int) -> None:
    assert client.ask(method, payload)["code"] == code


def test_a_server_without_its_history_gives_no_answer_that_could_pass_for_a_yes(tmp_path: Path) -> None:
    client = Client(tmp_path)
    client.hello()
    client.database.close()
    assert client.call("read")["code"] == -32603
    client.service.close()


def test_without_a_secret_nobody_is_answered(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"short")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingsError, match="16 bytes"):
        read_secrets(tmp_path / "short")
    with pytest.raises(SettingsError, match="cannot be read"):
        read_secrets(tmp_path / "none")
    with pytest.raises(SettingsError, match="there is no secret"):
        read_secrets(tmp_path / "empty")


def test_a_secret_that_is_changed_has_another_label_and_both_are_known_meanwhile(tmp_path: Path) -> None:
    old, new = b"the secret of last year", b"the secret of this year"
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "2026-09").write_bytes(old)
    (tmp_path / "secrets" / "2026-10").write_bytes(new + b"\n")
    client = Client(tmp_path, acs_secret_file=tmp_path / "secrets")
    for secret, label, code in ((old, "2026-09", None), (new, "2026-10", None), (new, "2026-09", -32004)):
        client.key, client.key_id = session_key(secret, client.session), label
        answer = client.post(sign(client.envelope("handshake/hello", HELLO), client.key, label)).json()
        said = answer.get("error") or answer["result"]
        assert (said.get("code"), said["signature"]["key_id"]) == (code, label)
    answer = client.post(sign(client.envelope("handshake/hello", HELLO), client.key, "default")).json()
    assert answer["error"]["code"] == -32004, "a label that is not known is no reason to try another secret"
    client.close()


def test_what_is_not_known_is_passed_over(client: Client) -> None:
    metadata = {"agent_id": "bot", "session_id": client.session, "mood": "good"}
    payload = {"tool": {"name": "read", "colour": "red"}, "arguments": {"a": {"value": 1, "b": 2}}, "more": [1]}
    assert client.ask("steps/toolCallRequest", payload, metadata=metadata, future=True)["decision"] == "allow"


def test_a_client_that_cannot_ask_a_person_is_put_off_and_passes_after_an_approval(tmp_path: Path) -> None:
    client = Client(tmp_path, acs_without_ask="other,bot")
    client.hello()
    said = client.call("pay", amount=3)
    assert (said["decision"], said["reason_codes"]) == ("defer", ["approver_unavailable"])
    assert said["defer_details"]["timeout_decision"] == "deny"
    assert "a person has to approve" in said["reasoning"]
    [record] = client.audited("acs_substitution")
    assert (record["given"], record["reason_codes"]) == ("defer", ["approver_unavailable"])
    client.approve_all()
    assert client.call("pay", amount=3)["decision"] == "allow"
    client.close()


def test_a_client_that_cannot_change_a_call_is_denied_and_hears_what_would_pass(tmp_path: Path) -> None:
    client = Client(tmp_path, acs_without_modify="*")
    client.hello()
    said = client.call("refund", amount=250)
    assert (said["decision"], said["reason_codes"]) == ("deny", ["modify_unsupported"])
    assert "amount of at most 100" in said["reasoning"]
    assert "reason_codes" not in client.call("drop")
    assert [one["given"] for one in client.audited("acs_substitution")] == ["deny"]
    assert [one["action"] for one in client.audited()] == ["block", "block"]
    client.close()


def test_a_change_that_takes_an_argument_out_replaces_the_payload(client: Client) -> None:
    said = client.call("send", to="bob", bcc="eve")
    assert said["decision"] == "modify"
    assert json.loads(said["modifications"]["modified_content"]) == {
        "tool": {"name": "send"},
        "arguments": {"to": {"value": "bob"}},
    }


def test_the_end_of_a_session_denies_nothing(client: Client) -> None:
    client.call("look")
    said = client.ask("steps/sessionEnd")
    assert (said["decision"], "owed" in said["reasoning"]) == ("allow", True)
