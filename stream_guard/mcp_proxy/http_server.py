"""The server of a proxy over HTTP: where it listens, and the connections to the server behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import httpx

from stream_guard.errors import SettingsError
from stream_guard.http.server import listen
from stream_guard.mcp_proxy.http_relay import PATH, HttpRelay, make_proxy
from stream_guard.mcp_wire.relay import Relay
from stream_guard.serve.assembly import serve
from stream_guard.settings import ApiSettings

_HOST: Final = "127.0.0.1"
_CONNECT: Final = 10.0  # seconds; an answer may take as long as a tool takes


def run_http(upstream: str, port: int, relay: Relay, settings: ApiSettings, say: Callable[[str], None]) -> None:
    """Answer clients on this machine until the process is told to stop."""
    address = urlsplit(upstream)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise SettingsError(f"--upstream {upstream}: write http://HOST:PORT/PATH or https://...")
    try:
        opened, url = listen(_HOST, port)
    except OSError as error:
        raise SettingsError(f"cannot listen on {_HOST} port {port}: {error.strerror}; take another --port") from None
    client = httpx.AsyncClient(timeout=httpx.Timeout(None, connect=_CONNECT), follow_redirects=False, trust_env=False)
    with opened:
        app = make_proxy(HttpRelay(upstream, relay, client, settings.max_body_bytes), settings)
        serve(app, opened, lambda: say(f"listening at {url}{PATH}"), settings)
