"""The HTTP client for tools, models and agents: a request ends in a reply of bounded size or an UpstreamError."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import Final

import httpx
import msgspec

MAX_BODY: Final = 8 * 2**20  # bytes of a request or an answer; more is refused
# Between two bytes, not in total: the agent decides how long an answer may take, and hangs up.
_PATIENCE: Final = httpx.Timeout(300.0, connect=10.0)

# RFC 9110, 7.6.1: these belong to one connection. From "host" on: they would not fit a body that was read or changed.
_NOT_FORWARDED: Final = frozenset(
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
    """A response: the status, the headers to forward, and the whole body."""

    status: int
    headers: dict[str, str]
    body: bytes


class UpstreamError(Exception):
    """No usable reply came; the text says why."""


def open_client(addresses: Iterable[str]) -> httpx.AsyncClient:
    """Return a client that uses no proxy of the environment and follows no redirect."""
    limits = httpx.Limits(max_keepalive_connections=20)
    # Loading the CA certificates takes longer than a short run; without them no TLS connection is trusted.
    is_plain = all(address.startswith("http://") for address in addresses)
    verify: ssl.SSLContext | bool = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True
    return httpx.AsyncClient(timeout=_PATIENCE, trust_env=False, follow_redirects=False, limits=limits, verify=verify)


def forwarded_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers that are forwarded to the other side."""
    return {name: value for name, value in headers if name.lower() not in _NOT_FORWARDED}


async def ask(client: httpx.AsyncClient, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
    """Return the reply, or raise UpstreamError."""
    try:
        sent = {**headers, "accept-encoding": "identity"}
        request = client.build_request(method, url, headers=sent, content=body)
        async with aclosing(await _send(client, request)) as response:
            received = bytearray()
            async for chunk in response.aiter_bytes():
                received += chunk
                if len(received) > MAX_BODY:
                    raise UpstreamError(f"the answer is longer than {MAX_BODY} bytes")
            return Reply(response.status_code, forwarded_headers(response.headers.items()), bytes(received))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise UpstreamError(f"{type(error).__name__}: {error}") from None


async def _send(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Return the response as soon as it begins. What changes nothing is sent again when its connection was closed."""
    try:
        return await client.send(request, stream=True)
    except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
        # The tool may close a connection that was kept just when it is used again.
        if request.method not in ("GET", "HEAD"):
            raise
    return await client.send(request, stream=True)
