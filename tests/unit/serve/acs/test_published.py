"""The published vectors of ACS-Core (``agent-evidence-vectors``), as far as they ask a Guardian something.

A member has its request in short form and says what is true of the signature, so that a client has to be added: what is
sent here is the envelope of the standard, signed as the member says, at the time of the member. Where a member has its
envelope and its secrets, they are sent as they are.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

import pytest

from stream_guard.serve import acs as guardian
from stream_guard.serve.acs import session_key, sign
from tests.parts import import_part
from tests.unit.serve.acs.test_guardian import HELLO, Client

SECRET, LABEL = b"the secret of the vectors", "k1"
NOON = "2026-09-09T12:00:00Z"
ASKED = "a Guardian is asked"
# What a member turns on that is no question to a Guardian, or is not of the level that is claimed.
LEFT_OUT = {
    "acs-f-4": "who approved: reviews are answered at another address, by people with tokens",
    "acs-f-5": "what a client does",
    "acs-f-11": "what a client does",
    "acs-f-12": "what a client does",
    "acs-f-14": "proposed, not adopted: a result whose call is not known",
    "acs-f-15": "acs-trace",
    "acs-f-16": "acs-trace",
    "acs-f-17": "acs-trace",
    "acs-f-18": "acs-trace",
    "acs-f-19": "acs-trace",
}
POLICY = """
rules:
  - {id: budget, kind: max_calls, params: {tool: records.lookup, n: 3}, then: block}
"""
PERSON = "rules: [{id: person, kind: no_call, params: {tool: records.lookup}, then: pause}]"


@cache
def members() -> list[dict[str, Any]]:
    import_part("agent_evidence_vectors")
    folder = files("agent_evidence_vectors") / "corpora" / "vectors-acs-core"
    listed = json.loads((folder / "MANIFEST.json").read_text(encoding="utf-8"))["vectors"]
    return [json.loads((folder / one["file"]).read_text(encoding="utf-8")) for one in listed]


def reason_of(member: dict[str, Any]) -> str:
    """Return why a member is left out, or that it asks a Guardian."""
    payload = member["payload"]
    if member["family"] in LEFT_OUT:
        return LEFT_OUT[member["family"]]
    if ("request" not in payload and "steps" not in payload) or "observed_disposition" in payload:
        return "a record, no request"
    if member["expected"]["verdict"] == "unmeasurable":
        return "says itself that it cannot be measured"
    return "intent, which is optional" if "intent" in payload or "provenance_producer" in payload else ASKED


def outcome(answer: dict[str, Any]) -> tuple[str, int | None]:
    """Return the disposition and the code of an answer; an error is a no."""
    if "error" in answer:
        return "deny", answer["error"]["code"]
    return answer["result"]["decision"], None


class Vectors(Client):
    """A Guardian with the secrets and the clock of a member."""

    def __init__(self, folder: Path, payload: dict[str, Any]) -> None:
        given = payload.get("verifier") or payload.get("observed_agent") or {"secret_hex": {LABEL: SECRET.hex()}}
        self.secrets = {label: bytes.fromhex(value) for label, value in given["secret_hex"].items()}
        (folder / "secrets").mkdir()
        for label, secret in self.secrets.items():
            (folder / "secrets" / label).write_bytes(secret)
        cannot_ask = payload.get("approver_capability") == "none"
        more = {"acs_without_ask": "*"} if cannot_ask else {}
        super().__init__(folder, PERSON if cannot_ask else POLICY, acs_secret_file=folder / "secrets", **more)
        self.payload = payload
        self.session = str(uuid5(NAMESPACE_OID, "vectors"))

    def signed(self, envelope: dict[str, Any], state: str = "VALID") -> dict[str, Any]:
        """Return an envelope with a signature that is as the member says."""
        label = next(iter(self.secrets))
        key = session_key(self.secrets[label], envelope["params"]["metadata"]["session_id"])
        if state == "COVERS_SUBSET":
            cut = {**envelope["params"], "metadata": {"agent_id": "bot"}}
            part = sign({**envelope, "params": cut}, key, label)["params"]["signature"]
            return {**envelope, "params": {**envelope["params"], "signature": part}}
        if state == "INVALID":
            key = bytes(32)
        return envelope if state == "ABSENT" else sign(envelope, key, label)

    def envelope_of(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the envelope of a request in short form."""
        hello = asked["method"] == "handshake/hello"
        tool = asked["params"].get("tool", {})
        arguments = {name: {"value": value} for name, value in tool.get("arguments", {}).items()}
        params = {
            "acs_version": asked["acs"] + ".0",
            # Members about budgets repeat the id, which makes every call but the first one a replay.
            "request_id": str(uuid4()) if "policy" in self.payload else asked["request_id"],
            "timestamp": asked["timestamp"],
            "metadata": {"agent_id": "bot", "session_id": self.session},
            "payload": asked["params"] if hello else {"tool": {"name": tool["name"]}, "arguments": arguments},
        }
        method = asked["method"] if hello else "steps/toolCallRequest"
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}

    def play(self) -> list[dict[str, Any]]:
        """Return the answers to what the member asks, after a handshake where it has none."""
        steps = self.payload.get("steps") or [{"request": self.payload["request"]}]
        requests = [step["request"] for step in steps]
        envelopes = requests
        if "jsonrpc" not in requests[0]:
            state = self.payload.get("signature_state", "VALID")
            envelopes = [self.signed(self.envelope_of(one), state) for one in requests]
        if envelopes[0]["method"] != "handshake/hello":
            metadata = envelopes[0]["params"]["metadata"]
            self.post(self.signed(self.envelope("handshake/hello", HELLO, metadata=metadata, timestamp=self.noon())))
        return [self.post(one).json() for one in envelopes]

    def noon(self) -> str:
        """Return the time of the Guardian."""
        request = self.payload.get("request", {})
        told: str = self.payload.get("guardian_clock") or request.get("params", {}).get("timestamp") or NOON
        return told


def test_the_members_are_those_that_were_looked_at() -> None:
    counted = Counter(map(reason_of, members()))
    assert counted[ASKED] == 26
    assert counted.total() == 140


def test_the_guardian_answers_every_member_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = []
    for number, member in enumerate(one for one in members() if reason_of(one) == ASKED):
        (tmp_path / str(number)).mkdir()
        asked = Vectors(tmp_path / str(number), member["payload"])
        now = datetime.fromisoformat(asked.noon()).timestamp()
        monkeypatch.setattr(guardian, "time", SimpleNamespace(time=lambda now=now: now))
        answers = asked.play()
        asked.close()
        if not fits(member, answers):
            wrong.append((member["id"], member["family"], member["cites"], [outcome(one) for one in answers]))
    assert wrong == []


def fits(member: dict[str, Any], answers: list[dict[str, Any]]) -> bool:
    """Whether answers are what a member expects."""
    label = member["payload"].get("request", {}).get("params", {}).get("signature", {}).get("key_id")
    if "observed_agent" in member["payload"]:  # what is looked at is the label of the answer, right here, wrong there
        return bool(answers[-1]["result"]["signature"]["key_id"] == label)
    expected, (decision, code) = member["expected"], outcome(answers[-1])
    if expected["verdict"] == "allow":
        return all(outcome(one) == ("allow", None) for one in answers)
    # A budget that is used up is a denial here; the members name the code for what was not negotiated.
    named = None if "policy" in member["payload"] else expected["codeValue"]
    return decision in ("deny", "defer") and named in (None, code)
