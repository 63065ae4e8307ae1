"""What stands behind a proxy, asked over HTTP: whatever it does, the outcome is a bounded answer or a reason."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from typing import Final

import httpx
import msgspec

MAX_BODY: Final = 8 * 2**20  # bytes of a request or an answer; more is refused
# Between two bytes, not in all: how long an answer may take is for the agent to say, and it hangs up.
_PATIENCE: Final = httpx.Timeout(300.0, connect=10.0)

# RFC 9110, 7.6.1: they belong to one connection. The others would not fit a body that was read, or changed.
_NOT_PASSED: Final = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "content-encoding",
        "accept-encoding",
        "date",
        "server",
    )
)


class Reply(msgspec.Struct):
    """What came back: a status, headers that may be passed on, and the whole body."""

    status: int
    headers: dict[str, str]
    body: bytes


class UpstreamError(Exception):
    """Nothing usable came back, and why."""


def open_client(addresses: Iterable[str]) -> httpx.AsyncClient:
    """Return a client that goes where it is told: through no other proxy, and after no redirect."""
    limits = httpx.Limits(max_keepalive_connections=20)
    # Reading the certificates of the world takes longer than a short run; without them no TLS connection is trusted.
    is_plain = all(address.startswith("http://") for address in addresses)
    verify: ssl.SSLContext | bool = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True
    return httpx.AsyncClient(timeout=_PATIENCE, trust_env=False, follow_redirects=False, limits=limits, verify=verify)


def passed_on(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers that go on to the other side."""
    return {name: value for name, value in headers if name.lower() not in _NOT_PASSED}


async def ask(client: httpx.AsyncClient, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
    """Return the answer, or raise UpstreamError."""
    try:
        sent = {**headers, "accept-encoding": "identity"}
        async with client.stream(method, url, headers=sent, content=body) as response:
            received = bytearray()
            async for chunk in response.aiter_bytes():
                received += chunk
                if len(received) > MAX_BODY:
                    raise UpstreamError(f"the answer is longer than {MAX_BODY} bytes")
            return Reply(response.status_code, passed_on(response.headers.items()), bytes(received))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise UpstreamError(f"{type(error).__name__}: {error}") from None
