"""The OWASP Agent Control Standard, version 0.1.0: serve as a Guardian, at ``POST /acs``.

Signed requests are answered with signed dispositions. Each step of a session is a question to the gate. The history
keeps of a session what was negotiated, which requests were seen, and the head of its chain.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec
import rfc8785
from rfc8785 import CanonicalizationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stream_guard.agent_hooks.asking import STOPPING, finding, refusal, tell
from stream_guard.agent_hooks.client import GateError
from stream_guard.errors import SettingsError, StreamGuardError
from stream_guard.guard.gate import Gate
from stream_guard.history import chain
from stream_guard.history.database import Database, Statements
from stream_guard.history.records import from_text, to_text
from stream_guard.judge.arguments import parse_json
from stream_guard.judge.model import Json, resolved
from stream_guard.mcp_wire.messages import BadMessageError, read_message, write_message
from stream_guard.serve.access import SIGNED, Identity
from stream_guard.serve.bodies import RequestRefused, read_body
from stream_guard.serve.this_gate import Ask, ThisGate
from stream_guard.settings import ApiSettings

ALGORITHM: Final = "HMAC-SHA256"
KEY_ID: Final = "default"  # the label of a secret that has none of its own
Envelope = dict[str, Any]

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
SESSION_REFUSED, UNSUPPORTED_VERSION, NOT_NEGOTIATED = -32000, -32001, -32003
SIGNATURE_INVALID, REPLAY_DETECTED, OUT_OF_WINDOW, CHAIN_MISMATCH = -32004, -32005, -32006, -32007
_NAMES: Final = {
    SESSION_REFUSED: "SESSION_REFUSED",
    UNSUPPORTED_VERSION: "UNSUPPORTED_VERSION",
    NOT_NEGOTIATED: "CAPABILITY_NOT_NEGOTIATED",
    SIGNATURE_INVALID: "SIGNATURE_INVALID",
    REPLAY_DETECTED: "REPLAY_DETECTED",
    OUT_OF_WINDOW: "TIMESTAMP_OUT_OF_WINDOW",
    CHAIN_MISMATCH: "CHAIN_MISMATCH",
}


class AcsError(Exception):
    """A request is answered with an error; ``data`` says more to programs."""

    def __init__(self, code: int, text: str, **data: Json) -> None:
        super().__init__(f"{_NAMES[code]}: {text}" if code in _NAMES else text)
        self.code = code
        self.data = data


def session_key(secret: bytes, session_id: str) -> bytes:
    """Return the key of a session: HKDF with SHA-256 (RFC 5869), without a salt, the session as its info."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, session_id.encode() + b"\x01", "sha256")


def sign(envelope: Envelope, key: bytes, key_id: str = KEY_ID) -> Envelope:
    """Return the envelope with its signature, in the part that carries one."""
    part = _signed_part(envelope)
    value = b64encode(_mac(envelope, key)).decode()
    signature = {"algorithm": ALGORITHM, "value": value, "key_id": key_id}
    return {**envelope, part: {**envelope[part], "signature": signature}}


def is_signed(envelope: Envelope, key: bytes) -> bool:
    """Whether the envelope has a signature that covers all of it."""
    given = envelope[_signed_part(envelope)].get("signature")
    if not isinstance(given, dict) or given.get("algorithm") != ALGORITHM or not isinstance(given.get("value"), str):
        return False
    try:
        return hmac.compare_digest(b64decode(given["value"], validate=True), _mac(envelope, key))
    except (ValueError, rfc8785.CanonicalizationError):  # no Base64, or a value that has no canonical form
        return False


def key_id_of(envelope: Envelope) -> str:
    """Return the label of the secret that an envelope says it is signed with; empty without one."""
    given = envelope[_signed_part(envelope)].get("signature")
    label = given.get("key_id") if isinstance(given, dict) else None
    return label if isinstance(label, str) else ""


def request_hash(params: Mapping[str, Json]) -> str:
    """Return the digest of a request's parameters, without their signature."""
    return sha256(rfc8785.dumps(_without(params, "signature"))).hexdigest()


def entry_hash(entry: Mapping[str, Json], previous: str) -> str:
    """Return the digest of an entry of a session's chain, bound to the one before; empty for the first."""
    content = rfc8785.dumps(_without(entry, "entry_hash", "previous_hash"))
    return sha256(content + bytes.fromhex(previous)).hexdigest()


def _mac(envelope: Envelope, key: bytes) -> bytes:
    part = _signed_part(envelope)
    return hmac.digest(key, rfc8785.dumps({**envelope, part: _without(envelope[part], "signature")}), "sha256")


def _signed_part(envelope: Envelope) -> str:
    return "params" if "method" in envelope else "error" if "error" in envelope else "result"


def _without(value: Mapping[str, Json], *names: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name not in names}


VERSION: Final = "0.1.0"
PROFILES: Final = ("acs-core", "acs-audit")
_PING: Final = "system/ping"
_MOST_DEFERRED: Final = 8  # answers of a session that only put it off
_AGENT: Final = Identity(roles=frozenset(("agent",)))
_HELLO: Final = "handshake/hello"
_IN_HELLO: Final = ("acs_versions_supported", "methods_implemented", "transports_supported", "provenance_producer")


class Guardian:
    """Answers requests of the standard. Whoever has the secret is the agent that it says it is."""

    def __init__(
        self, asked_by: Callable[[Identity], Ask], settings: ApiSettings, gate: Gate, secrets: AcsSecrets
    ) -> None:
        self._ask, self._gate, self._settings = asked_by(_AGENT), gate, settings
        self._secrets, self._sessions = secrets, AcsSessions(gate.database)

    def routes(self) -> list[Route]:
        """Return where the Guardian is asked."""
        return [Route(SIGNED, self.answer, methods=["POST"])]

    async def answer(self, request: Request) -> Response:
        """Answer one request. Without a session there is no key, so that the answer has no signature."""
        try:
            asked = parse_json(await read_body(request, self._settings.max_body_bytes))
        except RequestRefused as refused:
            return _json(_error(None, AcsError(INVALID_REQUEST, str(refused))), refused.status)
        except (ValueError, RecursionError) as error:
            return _json(_error(None, AcsError(PARSE_ERROR, str(error))), 400)
        if not isinstance(asked, dict) or not _is_request(asked):
            text = "send one request of JSON-RPC 2.0 as an object, with a method and an id; batches are not taken"
            return _json(_error(None, AcsError(INVALID_REQUEST, text)), 400)
        gate = ThisGate(self._ask, asyncio.get_running_loop(), self._settings.budget)
        return _json(await asyncio.to_thread(self._answer, asked, gate), 200)

    def _answer(self, asked: Envelope, gate: ThisGate) -> Envelope:
        if asked["method"] == _PING:
            return _pong(asked)
        session_id = ""
        try:
            params = _params_of(asked)
            session_id = params["metadata"]["session_id"]
            answer = _result(asked, params, self._decide(asked, params, gate))
        except AcsError as error:
            answer = _error(asked["id"], error)
        except StreamGuardError as error:
            answer = _error(asked["id"], AcsError(INTERNAL, str(error)))
        return self._secrets.sign(answer, asked, session_id) if session_id else answer

    def _decide(self, asked: Envelope, params: dict[str, Any], gate: ThisGate) -> dict[str, Any]:
        session_id, method, now = params["metadata"]["session_id"], asked["method"], time.time()
        if not self._secrets.has_signed(asked, session_id):
            text = "sign the whole envelope with the session's key, of a secret whose label is known here"
            raise AcsError(SIGNATURE_INVALID, text)
        if method != _HELLO and method not in METHODS and not method.startswith(WRAPPED):
            raise AcsError(NO_METHOD, f"there is no method {method[:80]!r}")
        _check_time(params["timestamp"], now)
        ids = [params["request_id"], *([f"nonce {params['nonce']}"] if params.get("nonce") else [])]
        if method == _HELLO:
            return self._hello(session_id, params.get("payload"), ids, now)
        entry = {
            "step_id": params["request_id"],
            "step_type": method,
            "request_hash": _hash_of(params),
            "timestamp": params["timestamp"],
        }
        session = self._sessions.admit(session_id, ids, entry, claimed=_claimed_head(params), now=now)
        disposition = self._step(gate, method, params).decide()
        if disposition["decision"] == "defer" and session.deferred >= _MOST_DEFERRED:
            disposition = {
                "decision": "deny",
                "reasoning": "it was put off too often",
                "reason_codes": ["deferral_limit"],
            }
        codes = disposition.get("reason_codes", ())
        ended = disposition["reasoning"] if "session_ended" in codes else ""
        if ended or disposition["decision"] == "defer":
            self._sessions.note(session_id, deferred=int(not ended), ended=ended)
        if not SUBSTITUTED.isdisjoint(codes):
            self._sessions.record_substitution(session_id, params["request_id"], disposition, now)
        return {**disposition, "chain_hash": session.head, "metadata": {"evaluator": "deterministic"}}

    def _step(self, gate: ThisGate, method: str, params: dict[str, Any]) -> AcsStep:
        """Return a step with what its client cannot do, which the settings say: the standard has no word for it."""
        agent = params["metadata"]["agent_id"]
        can_ask, can_modify = (
            agent not in names and "*" not in names
            for names in (self._settings.acs_without_ask, self._settings.acs_without_modify)
        )
        rules = () if can_modify else self._gate.policy.rules
        changing = frozenset(spec.id for spec in rules if spec.changes)
        return AcsStep(gate, method, params, can_ask=can_ask, can_modify=can_modify, changing=changing)

    def _hello(self, session_id: str, hello: Any, ids: list[str], now: float) -> dict[str, Any]:
        missing = [name for name in _IN_HELLO if not isinstance(hello, dict) or name not in hello]
        if missing:
            raise AcsError(INVALID_PARAMS, f"the hello lacks {', '.join(missing)}")
        versions, wanted = hello["acs_versions_supported"], hello["methods_implemented"]
        if not isinstance(versions, list) or not any(_is_ours(version) for version in versions):
            raise AcsError(UNSUPPORTED_VERSION, f"this is {VERSION}", supported_versions=[VERSION])
        known = [name for name in wanted if isinstance(name, str)] if isinstance(wanted, list) else []
        judged = [name for name in known if name in METHODS or name.startswith(WRAPPED) or name == _PING]
        self._sessions.negotiate(session_id, judged, ids, now)
        supported = hello.get("profiles_supported")
        said = {
            "negotiated_version": VERSION,
            "methods_evaluated": judged,
            "selected_transport": "http",
            "signature_algorithms_supported": [ALGORITHM],
            "timeout_config": {"default_ms": max(5000, 2 * int(self._settings.budget * 1000))},
            "on_decision_failure": "deny",
            "skew_window_ms": int(WINDOW * 1000),
            "approver_types_supported": ["human"],
            "policy_requires_provenance": False,
            "profiles_accepted": [name for name in PROFILES if not isinstance(supported, list) or name in supported],
        }
        # Clients read it as the result, older ones as its payload.
        return {"decision": "allow", **said, "payload": said}


def _params_of(asked: Envelope) -> dict[str, Any]:
    """Return the parameters that every request has, checked."""
    params = asked.get("params")
    metadata = params.get("metadata") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(metadata, dict):
        raise AcsError(INVALID_PARAMS, "a request has params, with metadata")
    if not isinstance(params.get("payload", {}), dict):
        raise AcsError(INVALID_PARAMS, "payload is an object")
    if not _is_uuid(metadata.get("session_id")) or not _is_uuid(params.get("request_id")):
        raise AcsError(INVALID_PARAMS, "metadata.session_id and request_id are UUIDs")
    if not isinstance(metadata.get("agent_id"), str) or not isinstance(params.get("timestamp"), str):
        raise AcsError(INVALID_PARAMS, "metadata.agent_id and timestamp are texts")
    if not _is_ours(params.get("acs_version")):
        raise AcsError(UNSUPPORTED_VERSION, f"this is {VERSION}", supported_versions=[VERSION])
    return params


def _is_request(asked: Envelope) -> bool:
    """Whether it is one, whose id an answer can repeat: it is signed, and not every value has a canonical form."""
    request_id = asked.get("id")
    has_id = _is_name(request_id) or (type(request_id) is int and abs(request_id) < 2**53)
    return asked.get("jsonrpc") == "2.0" and _is_name(asked.get("method")) and has_id


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _claimed_head(params: dict[str, Any]) -> str:
    """Return what the client takes for the head of the chain: the definition has it in the state of the session."""
    state = params["metadata"].get("session_state")
    found = params.get("chain_hash") or (state.get("chain_hash") if isinstance(state, dict) else None)
    return found if isinstance(found, str) else ""


def _is_uuid(value: Any) -> bool:
    try:
        return isinstance(value, str) and str(UUID(value)) == value.lower()
    except ValueError:
        return False


def _is_ours(version: Any) -> bool:
    return isinstance(version, str) and version.split(".")[0] == VERSION.split(".", maxsplit=1)[0]


def _check_time(text: str, now: float) -> None:
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        told = None
    if told is None or told.tzinfo is None or abs(told.timestamp() - now) > WINDOW:
        data = int(WINDOW * 1000)
        raise AcsError(OUT_OF_WINDOW, "the time of the request is too far from ours", skew_window_ms=data)


def _hash_of(params: dict[str, Any]) -> str:
    try:
        return request_hash(params)
    except (ValueError, CanonicalizationError):
        raise AcsError(INVALID_PARAMS, "params hold a value that has no canonical form") from None


def _pong(asked: Envelope) -> Envelope:
    """Return the answer to a ping, which is a yes whatever else is wrong with it."""
    params = asked.get("params")
    params = params if isinstance(params, dict) else {}
    payload = params.get("payload")
    echo = payload.get("echo", "") if isinstance(payload, dict) else ""
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    said = {"decision": "allow", "payload": {"status": "ok", "echo": echo, "server_timestamp": stamp}}
    return _result(asked, params, said)


def _result(asked: Envelope, params: dict[str, Any], result: dict[str, Any]) -> Envelope:
    said = {"type": "final", "acs_version": VERSION, "request_id": params.get("request_id"), **result}
    return {"jsonrpc": "2.0", "id": asked["id"], "result": said}


def _error(request_id: Any, error: AcsError) -> Envelope:
    said = {"code": error.code, "message": str(error), **({"data": error.data} if error.data else {})}
    return {"jsonrpc": "2.0", "id": request_id, "error": said}


def _json(value: Envelope, status: int) -> Response:
    return Response(write_message(value), status, media_type="application/json")


_STATUS: Final = {"success": "ok", "failure": "error", "timeout": "error", "blocked": "blocked"}
_RETRY_MS: Final = 20_000  # in which the gate gives the answer to a question that it could not judge in time
WRAPPED: Final = "protocols/MCP/"
_UNJUDGED: Final = "unjudged"
_NO_ASK, _NO_MODIFY = "approver_unavailable", "modify_unsupported"  # codes of the standard
SUBSTITUTED: Final = frozenset((_NO_ASK, _NO_MODIFY))  # of a disposition that its client could not carry out
# Steps that are judged as calls of a tool with their name, and steps that bring content in.
_AS_CALLS: Final = ("steps/subagentStart", "steps/memoryStore", "steps/skillRegister", "steps/skillLoad")
_AS_RESULTS: Final = ("steps/knowledgeRetrieval", "steps/memoryContextRetrieval")
_SILENT: Final = (
    "steps/sessionStart",
    "steps/turnStart",
    "steps/turnEnd",
    "steps/preCompact",
    "steps/postCompact",
    "steps/subagentStop",
    "steps/skillUnload",
)

Disposition = dict[str, Any]


class AcsStep:
    """One step of a session, as the gate is asked about it."""

    def __init__(
        self,
        gate: ThisGate,
        method: str,
        params: Mapping[str, Any],
        *,
        can_ask: bool = True,
        can_modify: bool = True,
        changing: frozenset[str] = frozenset(),
    ) -> None:
        """Take a step with what its client can do; ``changing`` are the rules whose changes it cannot carry out."""
        self._gate, self._method, self._params = gate, method, params
        self._can_ask, self._can_modify, self._changing = can_ask, can_modify, changing
        self._payload: dict[str, Any] = params.get("payload") or {}

    def decide(self) -> Disposition:
        """Return the disposition; AcsError for a payload that is not what the method has."""
        if self._method.startswith(WRAPPED):
            return self._wrapped()
        return _WAYS[self._method](self)

    def call(self) -> Disposition:
        """Ask about the call of a tool."""
        tool, wrapped = self._payload.get("tool"), self._payload.get("arguments", {})
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not isinstance(wrapped, dict):
            raise AcsError(INVALID_PARAMS, "payload.tool.name is a text, and payload.arguments an object")
        args = {key: _value(item) for key, item in wrapped.items()}
        ruling = self._check(name, args, may_modify=self._can_modify)
        return self._modified(ruling, args) if ruling["action"] == "modify" else self._disposition(ruling)

    def as_call(self) -> Disposition:
        """Ask about a step as about the call of a tool with its name."""
        return self._disposition(self._check(self._method.rpartition("/")[2], self._payload))

    def result(self) -> Disposition:
        """Tell what came of a call."""
        tool, status = self._payload.get("tool"), _STATUS.get(str(self._payload.get("exit_status")), "error")
        name = tool.get("name", "") if isinstance(tool, dict) else ""
        told = {"tool": name, "status": status, "output": self._payload.get("outputs")}
        ref = self._payload.get("request_id_ref")
        return self._tell({"kind": "tool_result", **told, **({"call_id": ref} if isinstance(ref, str) else {})})

    def as_result(self) -> Disposition:
        """Tell of content that came in."""
        name = self._method.rpartition("/")[2]
        return self._tell({"kind": "tool_result", "tool": name, "status": "ok", "output": self._payload})

    def message(self) -> Disposition:
        """Tell what a person, or what started the agent, said."""
        return self._tell({"kind": "user_message", "text": _text(self._payload)})

    def response(self) -> Disposition:
        """Tell what the agent is about to say."""
        said = {"content": [{"type": "text", "text": _text(self._payload)}], "stop_reason": "end_turn"}
        return self._tell({"kind": "turn", "response": said})

    def end(self) -> Disposition:
        """Tell that the session is over; what is found then denies nothing any more."""
        return {**self._tell({"kind": "session_end"}), "decision": "allow"}

    def nothing(self) -> Disposition:
        """Let a step pass that says nothing to a gate."""
        return {"decision": "allow"}

    def _wrapped(self) -> Disposition:
        """Ask about a message of MCP: a call before it goes out, whatever a server answered before it is shown."""
        try:
            message = read_message(write_message(self._payload))
        except BadMessageError as error:
            raise AcsError(INVALID_PARAMS, f"payload is no message of MCP: {error}") from None
        method = self._method.removeprefix(WRAPPED)
        if message.get("method", method) != method:
            raise AcsError(INVALID_PARAMS, "the message is of another method than the request")
        if "result" in message:
            return self._tell({"kind": "tool_result", "tool": method, "status": "ok", "output": message["result"]})
        params = message.get("params") or {}
        if method == "tools/call":
            return self._disposition(self._check(str(params.get("name") or ""), params.get("arguments") or {}))
        return self.nothing()

    def _check(self, tool: str, args: Any, *, may_modify: bool = False) -> dict[str, Any]:
        # The id of the request is that of the call, to which results refer.
        call_id = self._params["request_id"]
        asked = {"tool": tool, "args": args, "call_id": call_id, "event_id": call_id}
        try:
            return self._gate.post(
                "/v1/check", {**self._header(), **asked, "may_modify": may_modify, "may_defer": True}
            )
        except GateError as error:
            return {"action": _UNJUDGED, "reason": str(error), "alerts": []}

    def _disposition(self, ruling: dict[str, Any]) -> Disposition:
        """Return a ruling in the words of the standard."""
        action, references = ruling["action"], _references(ruling["alerts"])
        cited = {"policy_references": references} if references else {}
        if action == "allow":
            return {"decision": "allow", **cited}
        if action == _UNJUDGED:
            return {"decision": "deny", "reasoning": ruling["reason"], "reason_codes": [_UNJUDGED]}
        said = {"reasoning": refusal(ruling), **cited}
        if action == "pause":
            return {**said, **_asking(ruling, can_ask=self._can_ask)}
        if action == "defer":
            return {**said, **_deferring(_RETRY_MS)}
        if action == "terminate_session":
            return {"decision": "deny", **said, "reason_codes": ["session_ended"]}
        needs_change = any(alert["rule_id"] in self._changing for alert in ruling["alerts"])
        return {"decision": "deny", **said, **({"reason_codes": [_NO_MODIFY]} if needs_change else {})}

    def _modified(self, ruling: dict[str, Any], args: Mapping[str, Any]) -> Disposition:
        """Return a change of arguments as overrides by name; one that takes an argument out, as a new payload."""
        changed, rules = ruling["args"], ", ".join(ruling["modified_by"])
        edits: dict[str, Any]
        if set(args) - set(changed):
            wrapped = self._payload["arguments"]
            arguments = {name: _rewrapped(wrapped.get(name), value) for name, value in changed.items()}
            edits = {"modified_content": write_message({**self._payload, "arguments": arguments}).decode()}
        else:
            overrides = {name: value for name, value in changed.items() if name not in args or args[name] != value}
            edits = {"parameter_overrides": overrides}
        return {"decision": "modify", "reasoning": f"arguments were changed by {rules}", "modifications": edits}

    def _tell(self, event: dict[str, Any]) -> Disposition:
        told = {**self._header(), "event_id": self._params["request_id"], **event}
        try:
            alerts, action = tell(self._gate, told)
        except GateError as error:
            return {"decision": "deny", "reasoning": str(error), "reason_codes": [_UNJUDGED]}
        if action not in STOPPING:
            return {"decision": "allow"}
        reasoning = "; ".join(map(finding, alerts))
        return {"decision": "deny", "reasoning": reasoning, "policy_references": _references(alerts)}

    def _header(self) -> dict[str, Any]:
        metadata = self._params["metadata"]
        return {"session_id": metadata["session_id"], "agent": metadata["agent_id"], "time": time.time()}


_WAYS: Final[Mapping[str, Callable[[AcsStep], Disposition]]] = {
    "steps/toolCallRequest": AcsStep.call,
    "steps/toolCallResult": AcsStep.result,
    "steps/userMessage": AcsStep.message,
    "steps/agentTrigger": AcsStep.message,
    "steps/agentResponse": AcsStep.response,
    "steps/sessionEnd": AcsStep.end,
    **dict.fromkeys(_AS_CALLS, AcsStep.as_call),
    **dict.fromkeys(_AS_RESULTS, AcsStep.as_result),
    **dict.fromkeys(_SILENT, AcsStep.nothing),
}
METHODS: Final = tuple(_WAYS)


def _asking(ruling: dict[str, Any], *, can_ask: bool) -> Disposition:
    """Return a question to a person; for a client that cannot ask one, that somebody has to answer it elsewhere."""
    review = ruling["review"]
    seconds = max(1, int((review["expires"] or 0) - review["opened"]))
    found = {"policy_data": {"review": review["id"]}}
    if not can_ask:
        return {**_deferring(seconds * 1000), "reason_codes": [_NO_ASK], **found}
    approver = {"type": "human", "id": "stream_guard_reviewer"}
    question = ruling["reason"] or refusal(ruling)
    details = {"approver": approver, "question": question, "timeout_seconds": seconds}
    return {"decision": "ask", "ask_details": details, **found}


def _deferring(timeout_ms: int) -> Disposition:
    details = {"reason": "pending_dependency", "resolution_method": "retry", "resolution_timeout_ms": timeout_ms}
    return {"decision": "defer", "defer_details": {**details, "timeout_decision": "deny"}}


def _rewrapped(item: Any, value: Any) -> dict[str, Any]:
    return {**(item if isinstance(item, dict) and "value" in item else {}), "value": value}


def _references(alerts: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [
        {"policy_id": "stream_guard", "policy_version": alert["policy_version"], "rule_id": alert["rule_id"]}
        for alert in alerts
    ]


def _value(item: Any) -> Any:
    return item["value"] if isinstance(item, dict) and "value" in item else item


def _text(payload: Mapping[str, Any]) -> str:
    """Return the texts of a payload's content, one after the other."""
    content = payload.get("content", payload.get("text", ""))
    if isinstance(content, list):
        return "\n".join(str(_value(item)) for item in content)
    return str(_value(content))


WINDOW: Final = 300.0  # seconds that the time of a request may be off
_KEPT: Final = 2 * WINDOW  # how long requests are remembered: an older one is out of the window


@resolved
class AcsSession(msgspec.Struct, kw_only=True):
    """What is kept of a session."""

    methods: tuple[str, ...] = ()
    head: str = ""
    entries: int = 0
    deferred: int = 0
    ended: str = ""  # why, where a rule ended it


class AcsSessions:
    """All sessions of one history. Each change is one transaction, so that several servers agree."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def negotiate(self, session_id: str, methods: Sequence[str], ids: Sequence[str], now: float) -> None:
        """Remember what a handshake agreed on; what the session did before stays."""
        with self._database.transaction() as statements:
            self._refuse_replay(statements, session_id, ids, now)
            session = _find(statements, session_id) or AcsSession()
            session.methods = tuple(methods)
            _keep(statements, session_id, session)

    def admit(
        self, session_id: str, ids: Sequence[str], entry: dict[str, Json], *, claimed: str, now: float
    ) -> AcsSession:
        """Take a step into the chain of its session and return the session; AcsError where it must not be taken."""
        with self._database.transaction() as statements:
            session = _find(statements, session_id)
            method = str(entry["step_type"])
            if session is None or (method not in session.methods):
                raise AcsError(NOT_NEGOTIATED, "agree on this method with handshake/hello first", method=method)
            self._refuse_replay(statements, session_id, ids, now)
            if claimed and claimed != session.head:
                raise AcsError(CHAIN_MISMATCH, "the session's chain has another head", chain_hash=session.head)
            if session.ended:
                raise AcsError(SESSION_REFUSED, session.ended, reason="session_ended")
            session.entries += 1
            numbered = {"entry_id": str(session.entries), **entry}
            session.head = entry_hash(numbered, session.head)
            _keep(statements, session_id, session)
            return session

    def note(self, session_id: str, *, deferred: int = 0, ended: str = "") -> None:
        """Count a deferral, or remember that a rule has ended the session."""
        with self._database.transaction() as statements:
            session = _find(statements, session_id) or AcsSession()
            session.deferred += deferred
            session.ended = ended or session.ended
            _keep(statements, session_id, session)

    def record_substitution(self, session_id: str, request_id: str, given: Mapping[str, Json], now: float) -> None:
        """Record that a client got another disposition than a rule asks for, because it cannot carry that out."""
        record = {"session_id": session_id, "request": request_id, "given": given["decision"]}
        with self._database.transaction() as statements:
            chain.append(statements, "acs_substitution", now, {**record, "reason_codes": given["reason_codes"]})

    @staticmethod
    def _refuse_replay(statements: Statements, session_id: str, ids: Sequence[str], now: float) -> None:
        statements.run("DELETE FROM sg_acs_requests WHERE seen < ?", now - _KEPT)
        for name in ids:
            key = sha256(f"{session_id}\0{name}".encode()).hexdigest()
            if statements.run("SELECT 1 FROM sg_acs_requests WHERE request = ?", key):
                raise AcsError(REPLAY_DETECTED, "this request was made before; make another id, and another nonce")
            statements.run("INSERT INTO sg_acs_requests VALUES (?, ?)", key, now)


def _find(statements: Statements, session_id: str) -> AcsSession | None:
    rows = statements.run("SELECT body FROM sg_acs_sessions WHERE session = ?", session_id)
    return from_text(rows[0][0], AcsSession) if rows else None


def _keep(statements: Statements, session_id: str, session: AcsSession) -> None:
    statements.run(
        "INSERT INTO sg_acs_sessions VALUES (?, ?, ?) ON CONFLICT (session) DO UPDATE "
        "SET body = excluded.body, noted = excluded.noted",
        session_id,
        to_text(session),
        statements.time(),
    )


_SHORTEST: Final = 16  # bytes of a secret
_AFTER: Final = b"\r\n\t "  # what editors put after a secret, and clients take off


class AcsSecrets:
    """Checks and signs envelopes. A label that is not known is no reason to try another secret."""

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        self._secrets = secrets

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def has_signed(self, asked: Envelope, session_id: str) -> bool:
        """Whether a request has a signature with the secret that it names."""
        secret = self._secrets.get(key_id_of(asked))
        return secret is not None and is_signed(asked, session_key(secret, session_id))

    def sign(self, answer: Envelope, asked: Envelope, session_id: str) -> Envelope:
        """Return the answer, signed with the secret that the request named; the first one where it named none."""
        named = key_id_of(asked)
        label = named if named in self._secrets else next(iter(self._secrets))
        return sign(answer, session_key(self._secrets[label], session_id), label)


def read_secrets(place: Path | None) -> AcsSecrets:
    """Return the secret of a file, or those of a folder, where the name of a file is the label of its secret."""
    if place is None:
        return AcsSecrets({})
    try:
        files = {KEY_ID: place}
        if place.is_dir():
            files = {file.name: file for file in sorted(place.iterdir()) if file.is_file() and file.name[0] != "."}
        secrets = {label: file.read_bytes().rstrip(_AFTER) for label, file in files.items()}
    except OSError as error:
        raise SettingsError(f"{place}: the secret of ACS cannot be read: {error.strerror}") from None
    if not secrets:
        raise SettingsError(f"{place}: there is no secret of ACS; put one into a file, whose name is its label")
    for label, secret in secrets.items():
        if len(secret) < _SHORTEST:
            raise SettingsError(f"{files[label]}: a secret of ACS needs {_SHORTEST} bytes or more")
    return AcsSecrets(secrets)
