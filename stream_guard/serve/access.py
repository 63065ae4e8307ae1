"""Access to the API: the one place where a request becomes an identity, and the one way to ask for a role.

With a file of tokens, a caller is who the token says. Without one, on this machine only or with one token for all,
callers say who they are, and everybody has every role. The token also says whose events they are.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from functools import wraps
from secrets import compare_digest
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from stream_guard.errors import SettingsError
from stream_guard.judge.identity import BETWEEN, tenant_session
from stream_guard.judge.model import Header
from stream_guard.judge.spec import Agents
from stream_guard.serve.bodies import RequestRefused
from stream_guard.serve.tokens import ROLES, Role, TokenFile
from stream_guard.settings import ApiSettings

_SHORTEST: Final = 16  # characters; a shorter token can be guessed
_STATE: Final = "stream_guard_identity"
OPEN: Final = ("/healthz", "/readyz")
SIGNED: Final = "/acs"  # what is asked there proves by a signature who asks
_UNSEPARATED: Final = (
    "roles are not separated: {} may check, approve and solve under any name; "
    "set api.tokens_file to know who asks and who answers"
)
Handler = Callable[[Any, Request], Awaitable[Response]]


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a caller is. An empty name: callers say themselves who they are."""

    roles: frozenset[Role] = frozenset(ROLES)
    name: str = ""
    tenant: str = ""
    agents: tuple[str, ...] = ()  # whose attempts they may bring
    labels: dict[str, str] = {}  # that their events have, whatever they say
    all_tenants: frozenset[str] = frozenset()  # of this server

    @property
    def via(self) -> str:
        """How it is known who they are."""
        return "token" if self.name else "their word"


class Door(Protocol):
    """Knows callers by what they show; ``warning`` says what it cannot tell apart."""

    warning: str

    def identify(self, authorization: bytes, host: bytes) -> Identity | JSONResponse:
        """Return who it is, or the answer that refuses them."""


def requires(*roles: Role, whole_server: bool = False) -> Callable[[Handler], Handler]:
    """Refuse callers that have none of the roles; ``whole_server``: also those that belong to one tenant."""

    def demand(handler: Handler) -> Handler:
        @wraps(handler)
        async def guarded(self: Any, request: Request) -> Response:
            identity = identity_of(request)
            if not identity.roles.intersection(roles):
                raise RequestRefused(403, f"this takes the token of {' or '.join(map(_an, roles))}")
            if whole_server and identity.tenant:
                raise RequestRefused(403, "this is about all tenants; show a token that belongs to none")
            return await handler(self, request)

        return guarded

    return demand


def identity_of(request: Request) -> Identity:
    """Return who asks."""
    found: Identity = request.scope[_STATE]
    return found


def open_door(settings: ApiSettings) -> Door:
    """Return the door that the settings ask for; SettingsError when other machines could come in without a token."""
    token = settings.read_token()
    if settings.tokens_file is not None:
        if token:
            raise SettingsError("api.tokens_file says who may do what; take api.token and api.token_file out")
        return TokenDoor(TokenFile(settings.tokens_file))
    if token and (len(token) < _SHORTEST or not token.isascii() or not token.isprintable()):
        raise SettingsError(f"the token of the api needs {_SHORTEST} printable ASCII characters or more")
    if not token and not is_loopback(settings.host):
        raise SettingsError(
            f"api.host is {settings.host!r}, which other machines may reach; "
            "use 127.0.0.1, or set api.tokens_file to a file that `stream-guard tokens new` made"
        )
    return SharedDoor(token) if token else LocalDoor()


class TokenDoor:
    """Everybody has a token of their own."""

    warning = ""

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens

    def identify(self, authorization: bytes, _host: bytes) -> Identity | JSONResponse:
        """Return the owner of the token."""
        entry = self._tokens.find(_bearer(authorization))
        if entry is None:
            return _ask_for_token()
        return Identity(
            name=entry.name,
            roles=frozenset((entry.role,)),
            tenant=entry.tenant,
            agents=(entry.name, *entry.agents),
            labels=entry.labels,
            all_tenants=self._tokens.tenants,
        )


class SharedDoor:
    """One token for everybody."""

    warning = _UNSEPARATED.format("whoever has the token")

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def identify(self, authorization: bytes, _host: bytes) -> Identity | JSONResponse:
        """Return somebody who has the token."""
        return Identity() if compare_digest(_bearer(authorization), self._token) else _ask_for_token()


class LocalDoor:
    """No token; whoever is on this machine."""

    warning = _UNSEPARATED.format("everybody on this machine")

    def identify(self, _authorization: bytes, host: bytes) -> Identity | JSONResponse:
        """Return somebody who asks for this machine by a name of its own."""
        # DNS rebinding: a page in a local browser must not answer reviews under a name of its own.
        name = urlsplit(f"//{host.decode('latin-1')}").hostname if _is_plain(host) else None
        if name and is_loopback(name):
            return Identity()
        return JSONResponse({"error": "without a token, ask for 127.0.0.1 or localhost by that name"}, 403)


class Access:
    """Puts the identity of the caller into the request, or refuses it.

    ``/healthz`` and ``/readyz`` are open to all, and what is signed is let through to whoever checks the signature.
    """

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 or 403, or pass the request on."""
        if scope["type"] != "http" or scope["path"] in (*OPEN, SIGNED):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        # Gateways pass the caller's own credentials on, so that theirs need a header of their own.
        token = headers.get(b"x-stream-guard-token")
        shown = b"Bearer " + token if token else headers.get(b"authorization", b"")
        found = self._door.identify(shown, headers.get(b"host", b""))
        if isinstance(found, Identity):
            scope[_STATE] = found
            await self._app(scope, receive, send)
        else:
            await found(scope, receive, send)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host. Any name but localhost may resolve to another machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _bearer(authorization: bytes) -> bytes:
    scheme, _, token = authorization.partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


def _ask_for_token() -> JSONResponse:
    text = "show the token: Authorization: Bearer ..."
    return JSONResponse({"error": text}, 401, headers={"WWW-Authenticate": "Bearer"})


def _an(role: Role) -> str:
    return f"{'an' if role[0] in 'ao' else 'a'} {role}"


def _is_plain(host: bytes) -> bool:
    return bool(host) and not set(host) - set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]")


Stamped = TypeVar("Stamped", bound=Header)
TENANT: Final = "tenant"  # the label that names it


def stamp(event: Stamped, identity: Identity, agents: Agents) -> Stamped:
    """Return the event as the caller's own, or raise RequestRefused when it is somebody else's.

    It counts as who the token says, whatever name it has, and it has the labels of the token.
    """
    if not identity.name:
        return replace(event, counts_as="") if event.counts_as else event  # only a token says that
    if not event.agent:
        event = replace(event, agent=identity.name)
    counts_as = _counted_name(event, identity, agents)
    if not counts_as:
        raise RequestRefused(
            403, f"this is the token of {identity.name!r}; it brings nothing of the agent {event.agent[:100]!r}"
        )
    path = event.agent_path
    if not path and unversioned(event.agent) != identity.name:
        path = (identity.name,)  # a review knows by it who asked
    labels = _labels(event, identity)
    return _of_tenant(replace(event, agent_path=path, counts_as=counts_as, labels=labels), identity)


def _labels(event: Header, identity: Identity) -> dict[str, str]:
    for name, value in identity.labels.items():
        if event.labels.get(name, value) != value:
            raise RequestRefused(403, f"this token has the label {name}: {value!r}; it brings nothing with another")
    return {**event.labels, **identity.labels}


def _of_tenant(event: Stamped, identity: Identity) -> Stamped:
    if not identity.tenant:
        owner, named_after, _ = event.session_id.partition(BETWEEN)
        if named_after and (owner in identity.all_tenants or owner == event.labels.get(TENANT)):
            raise RequestRefused(403, "this session belongs to a tenant; show a token of that tenant")
        return event
    if event.labels.get(TENANT, identity.tenant) != identity.tenant:
        raise RequestRefused(403, f"this is a token of the tenant {identity.tenant!r}; it brings nothing of another")
    return replace(
        event,
        session_id=tenant_session(identity.tenant, event.session_id),
        labels={**event.labels, TENANT: identity.tenant},
    )


def _counted_name(event: Header, identity: Identity, agents: Agents) -> str:
    """Return under whom the event counts; nobody where its agent is neither the token's nor below it.

    That is an agent of the token, in any version, or one that the policy declares below it. A name that the policy
    does not know is the caller's word, and counts as the agent of the token that it says it is below.
    """
    declared = agents.named(event.agent)
    if declared is not None:  # the policy says what is above it, not the caller
        above = agents.lineage(declared)
        return declared if any(unversioned(name) in identity.agents for name in above) else ""
    names = (unversioned(name) for name in (event.agent, *reversed(event.agent_path)))
    return next((name for name in names if name in identity.agents), "")


def unversioned(agent: str) -> str:
    """Return the name of an agent without its version."""
    return agent.partition("@")[0]
