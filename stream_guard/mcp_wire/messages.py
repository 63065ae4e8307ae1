"""Messages of MCP: read so that no server reads them otherwise, and written as they were read."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from stream_guard.judge.arguments import parse_json
from stream_guard.judge.model import Json

NOT_JSON: Final = -32700
NOT_VALID: Final = -32600
NO_METHOD: Final = -32601
HEADER_MISMATCH: Final = -32020
NO_ANSWER: Final = -32000  # of the range that MCP leaves to others

_ENVELOPE: Final = ("jsonrpc", "id", "method", "params", "result", "error")
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}  # in the header Mcp-Name
_BASE64: Final = re.compile(r"=\?base64\?(.*)\?=")
_PARAMS: Final = ("name", "arguments", "uri", "_meta", "task", "requestState", "inputResponses")

Message = dict[str, Any]


class BadMessageError(Exception):
    """A message that is not passed on; ``code`` is the one of JSON-RPC, ``id`` that of the request, if it is known."""

    def __init__(self, code: int, text: str, request_id: Json = None) -> None:
        super().__init__(text)
        self.code = code
        self.id = request_id


def read_message(raw: bytes) -> Message:
    """Return a message; BadMessageError when it is none, or when another reader would take it for something else."""
    try:
        message = parse_json(raw)
    except (ValueError, RecursionError) as error:
        raise BadMessageError(NOT_JSON, f"not JSON that can be used: {error}") from None
    if not isinstance(message, dict):
        raise BadMessageError(NOT_VALID, "send one JSON-RPC message at a time, as an object")
    request_id = message.get("id")
    if request_id is not None and (isinstance(request_id, bool) or not isinstance(request_id, int | str)):
        raise BadMessageError(NOT_VALID, "the id of a message is a whole number or a text")
    _check_spelling(message, _ENVELOPE, request_id)
    if "method" in message:
        if not isinstance(message["method"], str) or "result" in message or "error" in message:
            raise BadMessageError(NOT_VALID, "a request has a method, which is a text, and no result", request_id)
        if "id" in message and request_id is None:
            raise BadMessageError(NOT_VALID, "the id of a request is not null")
        params = message.get("params", {})
        if not isinstance(params, dict):
            raise BadMessageError(NOT_VALID, "params is an object", request_id)
        _check_spelling(params, _PARAMS, request_id)
    return message


def _check_spelling(value: Message, names: Iterable[str], request_id: Json) -> None:
    """Refuse a key that some readers take for one of ours: those of Go do not look at the case of letters."""
    known = {name.casefold(): name for name in names}
    for key in value:
        meant = known.get(key.casefold())
        if meant is not None and key != meant:
            raise BadMessageError(NOT_VALID, f"the key {key[:40]!r} is spelled {meant!r}", request_id)


def check_headers(message: Message, headers: Mapping[str, str]) -> None:
    """Refuse a request whose headers, which gateways go by, name another method or tool than the body."""
    method, params = message["method"], message.get("params") or {}
    named = _plain(headers["mcp-name"]) if "mcp-name" in headers else None
    is_other_method = headers.get("mcp-method", method) != method
    is_other_name = named is not None and method in _NAMED and named != params.get(_NAMED[method])
    if is_other_method or is_other_name:
        header = "Mcp-Method" if is_other_method else "Mcp-Name"
        raise BadMessageError(
            HEADER_MISMATCH, f"the header {header} says something else than the body", message.get("id")
        )


def _plain(value: str) -> str:
    """Return the value of a header, which is Base64 where it is not plain ASCII."""
    found = _BASE64.fullmatch(value)
    if found is None:
        return value
    try:
        return b64decode(found[1], validate=True).decode()
    except ValueError:
        return ""


def write_message(message: Message) -> bytes:
    """Return a message in one line of ASCII: what was read is what is passed on."""
    return json.dumps(message, separators=(",", ":")).encode()


def names_version(message: Message) -> bool:
    """Whether a request says which version it is of, as all do from 2026-07-28 on."""
    meta = (message.get("params") or {}).get("_meta")
    return isinstance(meta, dict) and "io.modelcontextprotocol/protocolVersion" in meta


def tool_error(request_id: Json, text: str, *, has_type: bool) -> Message:
    """Return the answer to a call that did not run, or whose result is not shown: the model reads the text.

    From 2026-07-28 on every result has its type.
    """
    result: Message = {"content": [{"type": "text", "text": text}], "isError": True}
    kind = {"resultType": "complete"} if has_type else {}
    return {"jsonrpc": "2.0", "id": request_id, "result": result | kind}


def error(request_id: Json, text: str, code: int = NO_ANSWER) -> Message:
    """Return the answer to a request that is refused."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}
