"""The Guardian: one address, at which signed requests of the standard are answered with signed dispositions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from rfc8785 import CanonicalizationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stream_guard.errors import SettingsError, StreamGuardError
from stream_guard.history.database import Database
from stream_guard.language.arguments import parse_json
from stream_guard.mcp_wire.messages import write_message
from stream_guard.serve.access import SIGNED, Identity
from stream_guard.serve.acs import envelope as signing
from stream_guard.serve.acs.envelope import AcsError, Envelope
from stream_guard.serve.acs.sessions import WINDOW, AcsSessions
from stream_guard.serve.acs.steps import METHODS, WRAPPED, AcsStep
from stream_guard.serve.bodies import RequestRefused, read_body
from stream_guard.serve.this_gate import Ask, ThisGate
from stream_guard.settings import ApiSettings

VERSION: Final = "0.1.0"
PROFILES: Final = ("acs-core", "acs-audit")
_SHORTEST: Final = 16  # bytes of the secret
_MOST_DEFERRED: Final = 8  # answers of a session that only put it off
_AGENT: Final = Identity(roles=frozenset(("agent",)))
_HELLO: Final = ("acs_versions_supported", "methods_implemented", "transports_supported", "provenance_producer")


class Guardian:
    """Answers requests of the standard. Whoever has the secret is the agent that it says it is."""

    def __init__(
        self, asked_by: Callable[[Identity], Ask], settings: ApiSettings, database: Database, secret: bytes
    ) -> None:
        self._ask, self._secret, self._sessions = asked_by(_AGENT), secret, AcsSessions(database)
        self._most, self._budget_ms = settings.max_body_bytes, int(settings.budget * 1000)

    def routes(self) -> list[Route]:
        """Return where the Guardian is asked."""
        return [Route(SIGNED, self.answer, methods=["POST"])]

    async def answer(self, request: Request) -> Response:
        """Answer one request. Without a session there is no key, so that the answer has no signature."""
        try:
            asked = parse_json(await read_body(request, self._most))
        except RequestRefused as refused:
            return _json(_error(None, AcsError(signing.INVALID_REQUEST, str(refused))), refused.status)
        except (ValueError, RecursionError) as error:
            return _json(_error(None, AcsError(signing.PARSE_ERROR, str(error))), 400)
        if not isinstance(asked, dict) or not _is_name(asked.get("method")) or not _is_id(asked.get("id")):
            text = "send one request as an object, with a method and an id; batches are not taken"
            return _json(_error(None, AcsError(signing.INVALID_REQUEST, text)), 400)
        gate = ThisGate(self._ask, asyncio.get_running_loop())
        return _json(await asyncio.to_thread(self._answer, asked, gate), 200)

    def _answer(self, asked: Envelope, gate: ThisGate) -> Envelope:
        session_id = ""
        try:
            params = _params_of(asked)
            if asked["method"] == "system/ping":
                return _result(asked, params, _pong(params))
            session_id = params["metadata"]["session_id"]
            answer = _result(asked, params, self._decide(asked, params, gate))
        except AcsError as error:
            answer = _error(asked.get("id"), error)
        except StreamGuardError as error:
            answer = _error(asked.get("id"), AcsError(signing.INTERNAL, str(error)))
        return signing.sign(answer, signing.session_key(self._secret, session_id)) if session_id else answer

    def _decide(self, asked: Envelope, params: dict[str, Any], gate: ThisGate) -> dict[str, Any]:
        session_id, method, now = params["metadata"]["session_id"], asked["method"], time.time()
        if not signing.is_signed(asked, signing.session_key(self._secret, session_id)):
            raise AcsError(signing.SIGNATURE_INVALID, "sign the whole envelope with the session's key")
        if method == "handshake/hello":
            return self._hello(session_id, params.get("payload"))
        if method not in METHODS and not method.startswith(WRAPPED):
            raise AcsError(signing.NO_METHOD, f"there is no method {method[:80]!r}")
        _check_time(params["timestamp"], now)
        entry = {
            "step_id": params["request_id"],
            "step_type": method,
            "request_hash": _hash_of(params),
            "timestamp": params["timestamp"],
        }
        ids = [params["request_id"], *([f"nonce {params['nonce']}"] if params.get("nonce") else [])]
        claimed = params.get("chain_hash")
        claimed = claimed if isinstance(claimed, str) else ""
        session = self._sessions.admit(session_id, ids, entry, claimed=claimed, now=now)
        disposition = AcsStep(gate, method, params).decide()
        if disposition["decision"] == "defer" and session.deferred >= _MOST_DEFERRED:
            disposition = {
                "decision": "deny",
                "reasoning": "it was put off too often",
                "reason_codes": ["deferral_limit"],
            }
        ended = disposition["reasoning"] if "session_ended" in disposition.get("reason_codes", ()) else ""
        if ended or disposition["decision"] == "defer":
            self._sessions.note(session_id, deferred=int(not ended), ended=ended)
        return {**disposition, "chain_hash": session.head, "metadata": {"evaluator": "deterministic"}}

    def _hello(self, session_id: str, hello: Any) -> dict[str, Any]:
        missing = [name for name in _HELLO if not isinstance(hello, dict) or name not in hello]
        if missing:
            raise AcsError(signing.INVALID_REQUEST, f"the hello lacks {', '.join(missing)}")
        versions, wanted = hello["acs_versions_supported"], hello["methods_implemented"]
        if not isinstance(versions, list) or not any(_is_ours(version) for version in versions):
            raise AcsError(signing.UNSUPPORTED_VERSION, f"this is {VERSION}", supported_versions=[VERSION])
        known = [name for name in wanted if isinstance(name, str)] if isinstance(wanted, list) else []
        judged = [name for name in known if name in METHODS or name.startswith(WRAPPED) or name == "system/ping"]
        self._sessions.negotiate(session_id, judged)
        return {
            "decision": "allow",
            "payload": {
                "negotiated_version": VERSION,
                "methods_evaluated": judged,
                "selected_transport": "http",
                "signature_algorithms_supported": [signing.ALGORITHM],
                "timeout_config": {"default_ms": max(5000, 2 * self._budget_ms)},
                "on_decision_failure": "deny",
                "skew_window_ms": int(WINDOW * 1000),
                "approver_types_supported": ["human"],
                "policy_requires_provenance": False,
                "profiles_accepted": list(PROFILES),
            },
        }


def read_secret(file: Path | None) -> bytes:
    """Return the secret that sessions' keys are made of, empty without a file; SettingsError when it cannot be used."""
    if file is None:
        return b""
    try:
        secret = file.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"{file}: the secret of ACS cannot be read: {error.strerror}") from None
    if len(secret) < _SHORTEST:
        raise SettingsError(f"{file}: the secret of ACS needs {_SHORTEST} bytes or more")
    return secret


def _params_of(asked: Envelope) -> dict[str, Any]:
    """Return the parameters that every request has, checked."""
    params = asked.get("params")
    metadata = params.get("metadata") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(metadata, dict):
        raise AcsError(signing.INVALID_REQUEST, "a request has params, with metadata")
    if not isinstance(params.get("payload", {}), dict):
        raise AcsError(signing.INVALID_REQUEST, "payload is an object")
    if not _is_uuid(metadata.get("session_id")) or not _is_uuid(params.get("request_id")):
        raise AcsError(signing.INVALID_REQUEST, "metadata.session_id and request_id are UUIDs")
    if not isinstance(metadata.get("agent_id"), str) or not isinstance(params.get("timestamp"), str):
        raise AcsError(signing.INVALID_REQUEST, "metadata.agent_id and timestamp are texts")
    if not _is_ours(params.get("acs_version")):
        raise AcsError(signing.UNSUPPORTED_VERSION, f"this is {VERSION}", supported_versions=[VERSION])
    return params


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _is_id(value: Any) -> bool:
    """Whether an answer can repeat the id of a request: it is signed, and not every value has a canonical form."""
    return value is None or _is_name(value) or (type(value) is int and abs(value) < 2**53)


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


def _pong(params: dict[str, Any]) -> dict[str, Any]:
    echo = (params.get("payload") or {}).get("echo", "")
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"decision": "allow", "payload": {"status": "ok", "echo": echo, "server_timestamp": stamp}}


def _result(asked: Envelope, params: dict[str, Any], result: dict[str, Any]) -> Envelope:
    said = {"type": "final", "acs_version": VERSION, "request_id": params["request_id"], **result}
    return {"jsonrpc": "2.0", "id": asked.get("id"), "result": said}


def _error(request_id: Any, error: AcsError) -> Envelope:
    said = {"code": error.code, "message": str(error), **({"data": error.data} if error.data else {})}
    return {"jsonrpc": "2.0", "id": request_id, "error": said}


def _json(value: Envelope, status: int) -> Response:
    return Response(write_message(value), status, media_type="application/json")
