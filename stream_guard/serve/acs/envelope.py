"""Envelopes of ACS: how they are signed, and how the steps of a session are chained."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import rfc8785

from stream_guard.judge.model import Json

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
