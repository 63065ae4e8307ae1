"""Who looks at the page: a token in a cookie that no script reads, and forms that only our own pages can send."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from stream_guard.serve.access import Door, Identity
from stream_guard.serve.bodies import RequestRefused

COOKIE: Final = "sg_token"
NAME_COOKIE: Final = "sg_name"  # how somebody without a token calls themselves
_STATE: Final = "stream_guard_page_identity"
_OPEN: Final = ("/sign-in", "/static/")
_DAY: Final = 12 * 3600  # seconds that a sign-in lasts
_MAX_FORM: Final = 2 * 2**20
_MAX_FIELDS: Final = 5000
# A link from elsewhere comes without the cookie. Our own page may ask again, and then it is sent.
_ONCE_MORE: Final = (
    '<!doctype html><html lang="en"><meta http-equiv="refresh" content="0;url={}"><title>stream_guard</title>'
)


class PageAccess:
    """Puts who asks into the request, or sends them to the form where they sign in."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it here."""
        if scope["type"] != "http" or scope["path"].startswith(_OPEN):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        found = identify(self._door, request)
        if isinstance(found, Identity):
            scope[_STATE] = found
            await self._app(scope, receive, send)
            return
        await _refusal(request, found)(scope, receive, send)


def identify(door: Door, request: Request) -> Identity | JSONResponse:
    """Return who asks, by header or cookie, or the answer that refuses them."""
    shown = request.headers.get("authorization", "").encode("latin-1")
    cookie = request.cookies.get(COOKIE, "")
    if not shown and cookie:
        shown = b"Bearer " + cookie.encode("latin-1", "replace")
    return door.identify(shown, request.headers.get("host", "").encode("latin-1"))


def who(request: Request) -> Identity:
    """Return who asks."""
    found: Identity = request.scope[_STATE]
    return found


def require_all_tenants(request: Request) -> None:
    """Refuse whoever belongs to one tenant."""
    if who(request).tenant:
        raise RequestRefused(403, "This is about all tenants; it takes a token that belongs to none.")


def _refusal(request: Request, refused: JSONResponse) -> Response:
    if refused.status_code != 401:  # not by this name of the machine: no token would help
        return refused
    wanted = local_target(request.url.path + (f"?{request.url.query}" if request.url.query else ""))
    if request.method != "GET" or request.headers.get("hx-request"):
        return Response("sign in again, then repeat what you did", 401, media_type="text/plain")
    if request.headers.get("sec-fetch-site") == "cross-site":
        return HTMLResponse(_ONCE_MORE.format(quote(wanted, safe="/?=&~")))
    return RedirectResponse(f"/sign-in?next={quote(wanted, safe='')}", 303)


class Forms:
    """Forms of this process's pages. A form from another site, or from before a restart, is refused."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def mark(self, request: Request) -> str:
        """Return the text that a form has to carry: it belongs to this process and this caller."""
        owner = request.cookies.get(COOKIE, "") or request.headers.get("authorization", "")
        return hmac.new(self._secret, owner.encode("utf-8", "replace"), sha256).hexdigest()

    async def read(self, request: Request) -> dict[str, list[str]]:
        """Return the fields of a form; RequestRefused when it is not one of ours."""
        fields = await read_fields(request)
        if not hmac.compare_digest(first_of(fields, "csrf").encode(), self.mark(request).encode()):
            raise RequestRefused(403, "this form is not from this page, or is too old; go back, reload, and try again")
        return fields


async def read_fields(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form from a page of this site."""
    _refuse_other_sites(request)
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise RequestRefused(415, "send a form")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM:
            raise RequestRefused(413, "this form is too large")
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise RequestRefused(400, "this form cannot be read") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields


def _refuse_other_sites(request: Request) -> None:
    """Refuse what a browser says was sent from somewhere else; it says so without being asked."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin", "")
    if site not in ("same-origin", "none") or (origin and urlsplit(origin).netloc != request.headers.get("host", "")):
        raise RequestRefused(403, "this form came from another site")


def remember(response: Response, request: Request, token: str) -> None:
    """Keep the token in a cookie that scripts cannot read and other sites cannot send."""
    secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(COOKIE, token, max_age=_DAY, httponly=True, samesite="strict", secure=secure)


def answerer(identity: Identity, fields: Mapping[str, list[str]]) -> str:
    """Return under which name somebody answers: the token's, or their word where there is none."""
    name = identity.name or first_of(fields, "by").strip()[:200]
    if not name:
        raise RequestRefused(422, "say who answers: your name")
    return name


def back(path: str, by: str, identity: Identity) -> Response:
    """Return to a page after an answer; a name that was typed is remembered."""
    response = RedirectResponse(path, 303)
    if not identity.name:
        response.set_cookie(NAME_COOKIE, by.encode("ascii", "ignore").decode(), httponly=True, samesite="strict")
    return response


def local_target(wanted: str) -> str:
    """Return where to go after signing in; never to another site."""
    return wanted if wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable() else "/"


def first_of(fields: Mapping[str, list[str]], name: str) -> str:
    """Return a field of a form; nothing where it is left out."""
    return fields.get(name, [""])[0]
