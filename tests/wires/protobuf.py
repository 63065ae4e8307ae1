"""Messages of gateways that ask over gRPC, byte for byte by the numbers of the published definitions."""

from __future__ import annotations

from typing import Any, Final

EXT_MCP_REQUEST: Final = "/agentgateway.dev.ext_mcp.ExtMcp/CheckRequest"
EXT_MCP_RESPONSE: Final = "/agentgateway.dev.ext_mcp.ExtMcp/CheckResponse"
EXT_AUTHZ: Final = "/envoy.service.auth.v3.Authorization/Check"


def field(number: int, value: bytes | str) -> bytes:
    """Return a field of bytes, a text or a message, as protobuf writes it."""
    raw = value.encode() if isinstance(value, str) else value
    size, length = b"", len(raw)
    while True:
        size += bytes([length & 0x7F | (0x80 if length > 0x7F else 0)])
        length >>= 7
        if not length:
            return bytes([number << 3 | 2]) + size + raw


def fields(raw: bytes) -> dict[int, Any]:
    """Return the fields of a message by number: bytes, or numbers."""
    found: dict[int, Any] = {}
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = raw[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(raw):
        key = varint()
        if key & 7 == 0:
            found[key >> 3] = varint()
        else:
            size = varint()
            found[key >> 3], place = raw[place : place + size], place + size
    return found


def struct(name: str, value: str) -> bytes:
    """Return a google.protobuf.Struct with one text."""
    return field(1, field(1, name) + field(2, field(3, value)))


def mcp_request(params: bytes | str, method: str = "tools/call", session: str = "") -> bytes:
    """Return what agentgateway asks before it passes a request on."""
    named = field(3, struct("session", session)) if session else b""
    return field(1, "shop") + field(2, method) + named + (field(4, params) if params else b"")


def auth_request(body: bytes | str, method: str = "POST", **headers: str) -> bytes:
    """Return what Envoy asks about a request over HTTP."""
    listed = b"".join(field(3, field(1, name.replace("_", "-")) + field(2, one)) for name, one in headers.items())
    # A text, or bytes where the gateway packs them so.
    packed = field(12 if isinstance(body, bytes) else 11, body) if body else b""
    http = field(2, method) + listed + field(4, "/mcp") + packed
    return field(1, field(4, field(2, http)))
