"""The Guardian: one address, at which signed requests of the standard are answered with signed dispositions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from rfc8785 import CanonicalizationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stream_guard.errors import StreamGuardError
from stream_guard.guard.gate import Gate
from stream_guard.judge.arguments import parse_json
from stream_guard.mcp_wire.messages import write_message
from stream_guard.serve.access import SIGNED, Identity
from stream_guard.serve.acs import envelope as signing
from stream_guard.serve.acs.envelope import AcsError, Envelope
from stream_guard.serve.acs.sessions import WINDOW, AcsSessions
from stream_guard.serve.acs.signing_secrets import AcsSecrets
from stream_guard.serve.acs.steps import METHODS, SUBSTITUTED, WRAPPED, AcsStep
from stream_guard.serve.bodies import RequestRefused, read_body
from stream_guard.serve.this_gate import Ask, ThisGate
from stream_guard.settings import ApiSettings

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
            return _json(_error(None, AcsError(signing.INVALID_REQUEST, str(refused))), refused.status)
        except (ValueError, RecursionError) as error:
            return _json(_error(None, AcsError(signing.PARSE_ERROR, str(error))), 400)
        if not isinstance(asked, dict) or not _is_request(asked):
            text = "send one request of JSON-RPC 2.0 as an object, with a method and an id; batches are not taken"
            return _json(_error(None, AcsError(signing.INVALID_REQUEST, text)), 400)
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
            answer = _error(asked["id"], AcsError(signing.INTERNAL, str(error)))
        return self._secrets.sign(answer, asked, session_id) if session_id else answer

    def _decide(self, asked: Envelope, params: dict[str, Any], gate: ThisGate) -> dict[str, Any]:
        session_id, method, now = params["metadata"]["session_id"], asked["method"], time.time()
        if not self._secrets.has_signed(asked, session_id):
            text = "sign the whole envelope with the session's key, of a secret whose label is known here"
            raise AcsError(signing.SIGNATURE_INVALID, text)
        if method != _HELLO and method not in METHODS and not method.startswith(WRAPPED):
            raise AcsError(signing.NO_METHOD, f"there is no method {method[:80]!r}")
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
            raise AcsError(signing.INVALID_PARAMS, f"the hello lacks {', '.join(missing)}")
        versions, wanted = hello["acs_versions_supported"], hello["methods_implemented"]
        if not isinstance(versions, list) or not any(_is_ours(version) for version in versions):
            raise AcsError(signing.UNSUPPORTED_VERSION, f"this is {VERSION}", supported_versions=[VERSION])
        known = [name for name in wanted if isinstance(name, str)] if isinstance(wanted, list) else []
        judged = [name for name in known if name in METHODS or name.startswith(WRAPPED) or name == _PING]
        self._sessions.negotiate(session_id, judged, ids, now)
        supported = hello.get("profiles_supported")
        said = {
            "negotiated_version": VERSION,
            "methods_evaluated": judged,
            "selected_transport": "http",
            "signature_algorithms_supported": [signing.ALGORITHM],
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
        raise AcsError(signing.INVALID_PARAMS, "a request has params, with metadata")
    if not isinstance(params.get("payload", {}), dict):
        raise AcsError(signing.INVALID_PARAMS, "payload is an object")
    if not _is_uuid(metadata.get("session_id")) or not _is_uuid(params.get("request_id")):
        raise AcsError(signing.INVALID_PARAMS, "metadata.session_id and request_id are UUIDs")
    if not isinstance(metadata.get("agent_id"), str) or not isinstance(params.get("timestamp"), str):
        raise AcsError(signing.INVALID_PARAMS, "metadata.agent_id and timestamp are texts")
    if not _is_ours(params.get("acs_version")):
        raise AcsError(signing.UNSUPPORTED_VERSION, f"this is {VERSION}", supported_versions=[VERSION])
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
        raise AcsError(signing.OUT_OF_WINDOW, "the time of the request is too far from ours", skew_window_ms=data)


def _hash_of(params: dict[str, Any]) -> str:
    try:
        return signing.request_hash(params)
    except (ValueError, CanonicalizationError):
        raise AcsError(signing.INVALID_PARAMS, "params hold a value that has no canonical form") from None


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
