"""Access to the API: with a token, or without one from this machine only."""

from __future__ import annotations

import ipaddress
from secrets import compare_digest
from urllib.parse import urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from stream_guard.errors import SettingsError
from stream_guard.settings import ApiSettings

_SHORTEST = 16  # characters; a shorter token can be guessed


def token_of(settings: ApiSettings) -> str:
    """Return the token that callers need, empty for none; SettingsError when other machines could call without one."""
    token = settings.read_token()
    if token and (len(token) < _SHORTEST or not token.isascii() or not token.isprintable()):
        raise SettingsError(f"the token of the api needs {_SHORTEST} printable ASCII characters or more")
    if not token and not is_loopback(settings.host):
        raise SettingsError(
            f"api.host is {settings.host!r}, which other machines may reach; "
            "use 127.0.0.1, or set api.token_file to a file with the token that callers must show"
        )
    return token


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host. Any name but localhost may resolve to another machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """Refuses requests without access; ``/healthz`` is open to all."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 or 403, or pass the request on."""
        if scope["type"] != "http" or scope["path"] == "/healthz":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        refused = self._refuse(headers.get(b"authorization", b""), headers.get(b"host", b""))
        await (refused or self._app)(scope, receive, send)

    def _refuse(self, authorization: bytes, host: bytes) -> JSONResponse | None:
        if self._token:
            scheme, _, token = authorization.partition(b" ")
            if scheme.lower() == b"bearer" and compare_digest(token.strip(), self._token.encode()):
                return None
            text = "show the token: Authorization: Bearer ..."
            return JSONResponse({"error": text}, 401, headers={"WWW-Authenticate": "Bearer"})
        # DNS rebinding: a page in a local browser must not answer reviews under a name of its own.
        name = urlsplit(f"//{host.decode('latin-1')}").hostname if _is_plain(host) else None
        if name and is_loopback(name):
            return None
        return JSONResponse({"error": "without a token, ask for 127.0.0.1 or localhost by that name"}, 403)


def _is_plain(host: bytes) -> bool:
    return bool(host) and not set(host) - set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]")
