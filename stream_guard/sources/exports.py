"""OTLP exports over HTTP: their addresses and encodings, what is wrong with a body, and how a receiver answers."""

from __future__ import annotations

from typing import Final

import msgspec

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
# What a request brought, as the spool keeps it.
SORTS: Final = {("/v1/traces", PROTOBUF): 1, ("/v1/logs", PROTOBUF): 2, ("/v1/traces", JSON): 3, ("/v1/logs", JSON): 4}
CONTENT_TYPES: Final = {sort: media for (_, media), sort in SORTS.items()}
PATHS: Final = tuple(dict.fromkeys(path for path, _ in SORTS))


def problem_of(media: str, body: bytes) -> str:
    """Return what is wrong with a body, or an empty text."""
    return _json_problem(body) if media == JSON else _protobuf_problem(body)


def write_answer(media: str, text: str = "") -> tuple[str, bytes]:
    """Return an empty response, or a status with a message, in the encoding of the request: as OTLP answers."""
    if media != PROTOBUF:
        return JSON, msgspec.json.encode({"message": text} if text else {})
    message = text.encode()
    return PROTOBUF, b"\x12" + _varint(len(message)) + message if message else b""


def _json_problem(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        return str(error)[:200]
    return "" if isinstance(found, dict) else "an export is an object"


def _protobuf_problem(body: bytes) -> str:
    """Look at the outermost message: fields 1 with a length, and nothing else that is known."""
    at = 0
    while at < len(body):
        tag, at = _read_varint(body, at)
        size, at = _read_varint(body, at)
        if tag & 7 != 2 or tag >> 3 == 0 or at < 0 or at + size > len(body):
            return "not an export in protobuf"
        at += size
    return ""


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place behind it; -1 where it is cut off or too long."""
    found = 0
    for shift in range(0, 63, 7):
        if not 0 <= at < len(body):
            return 0, -1
        byte = body[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
    return 0, -1
