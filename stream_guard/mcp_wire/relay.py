"""The relay: every message between a client and a server passes here, whatever carries it, in every version.

Requests are known by their ids until they are answered. A call is judged before it goes on, and what a server answers
or asks its client for before it is shown. An answer that nobody waits for goes nowhere.

Requests of a server to its client, such as sampling and elicitation, are calls of a tool with the name of the method. A
rule may forbid, count, pause or change them. What they say is judged before the client sees it, and what the client
answers before the server does.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, NamedTuple
from uuid import uuid4

from stream_guard.history.records import digest_of
from stream_guard.judge.model import Json
from stream_guard.mcp_wire.judge import McpCall, McpJudge, SessionKey, SessionKeys, call_of
from stream_guard.mcp_wire.messages import (
    NO_ANSWER,
    NO_METHOD,
    NOT_VALID,
    BadMessageError,
    Message,
    check_headers,
    error,
    names_version,
    read_message,
    tool_error,
    write_message,
)

CALL: Final = "tools/call"
_CANCELLED: Final = "notifications/cancelled"
_MOST_OPEN: Final = 4096  # requests that wait for an answer
_MOST_HALVES: Final = 256  # calls that wait for what their server asked for
_NO_HEADERS: Final[Mapping[str, str]] = {}

_logger = logging.getLogger(__name__)


class Passed(NamedTuple):
    """What becomes of a client's message: it goes on to the server, or the client is answered, or neither."""

    forward: bytes = b""
    answer: bytes = b""
    is_bad: bool = False  # the answer says that the message was none
    id: int | str | None = None  # of a request that waits for its answer


class _OpenRequest(NamedTuple):
    """What is kept of a request, however large it was, until it is answered."""

    id: int | str
    method: str
    session: SessionKey
    call: McpCall | None  # without its arguments
    arguments: str  # their digest
    names_version: bool


class Relay:
    """Judges messages. Safe to call from many threads.

    ``scope`` is where ids of requests are unique: a connection, or a session of the protocol.
    """

    def __init__(self, judge: McpJudge, keys: SessionKeys) -> None:
        self._judge, self._keys = judge, keys
        self._open: dict[tuple[str, int | str], _OpenRequest] = {}
        self._halves: dict[str, McpCall] = {}
        self._asked = ServerRequests(judge)
        self._lock = Lock()

    def from_client(self, raw: bytes, scope: str = "", headers: Mapping[str, str] = _NO_HEADERS) -> Passed:
        """Return what becomes of a message of the client."""
        try:
            message = read_message(raw)
            if "method" not in message:
                return Passed(forward=self._asked.answer(message, scope))
            return self._request(message, scope, headers)
        except BadMessageError as refused:
            return Passed(answer=write_message(error(refused.id, str(refused), refused.code)), is_bad=True)

    def from_server(self, raw: bytes, scope: str = "", headers: Mapping[str, str] = _NO_HEADERS) -> Shown:
        """Return what becomes of a message of the server; ``headers`` are those of the client's request."""
        try:
            message = read_message(raw)
        except BadMessageError as refused:
            _logger.warning("a message of the server was dropped: %s", refused)
            return Shown()
        if "method" in message:
            return self._of_server(message, scope, headers)
        with self._lock:
            opened = self._open.pop((scope, message.get("id", "")), None)
        if opened is None:
            _logger.warning("an answer of the server was dropped: nobody waits for it")
            return Shown()
        return Shown(forward=write_message(self._judged(opened, message)))

    def give_up(self, scope: str, why: str, request_id: int | str | None = None) -> None:
        """Tell the gate that a request of a scope will not be answered; without an id, all of them."""
        with self._lock:
            keys = [key for key in self._open if key[0] == scope and request_id in (None, key[1])]
            left = [self._open.pop(key) for key in keys]
        for opened in left:
            if opened.call is not None:
                self._judge.report(opened.call, "error", why)

    def _of_server(self, message: Message, scope: str, headers: Mapping[str, str]) -> Shown:
        """Return what becomes of a notification, or of a request to the client."""
        params = message.get("params") or {}
        if "id" not in message:
            if message["method"] == _CANCELLED:
                self._asked.cancel(scope, params.get("requestId"))
            return Shown(forward=write_message(message))
        with self._lock:
            sessions = [opened.session for (place, _), opened in self._open.items() if place == scope]
        # Servers ask while they work on something: of whose session that is, they do not say.
        session = sessions[-1] if sessions else self._keys.find(params, headers)
        return self._asked.ask(message, session, scope)

    def _request(self, message: Message, scope: str, headers: Mapping[str, str]) -> Passed:
        params = message.get("params") or {}
        check_headers(message, headers)
        if "id" not in message:
            if message["method"] == CALL:
                raise BadMessageError(NOT_VALID, "a call of a tool needs an id")
            if message["method"] == _CANCELLED:
                self._cancel(scope, params.get("requestId"))
            return Passed(forward=write_message(message))
        session = self._keys.find(params, headers)
        call = self._call(message, params, session) if message["method"] == CALL else None
        opened = _opened(message, session, call)
        self._wait(scope, opened)
        if call is None:
            return Passed(forward=write_message(message), id=opened.id)
        ruling = self._judge.check(call)
        if not ruling.refusal:
            return Passed(forward=write_message(_with_arguments(message, ruling.args, call)), id=opened.id)
        with self._lock:
            self._open.pop((scope, opened.id), None)
        return Passed(answer=write_message(_tool_error(opened, ruling.refusal)))

    def _wait(self, scope: str, opened: _OpenRequest) -> None:
        with self._lock:
            if (scope, opened.id) in self._open:
                raise BadMessageError(NOT_VALID, "a request of this id waits for its answer; take another id")
            if len(self._open) >= _MOST_OPEN:
                raise BadMessageError(NOT_VALID, f"{_MOST_OPEN} requests wait for an answer; wait too", opened.id)
            self._open[scope, opened.id] = opened

    def _cancel(self, scope: str, request_id: Any) -> None:
        with self._lock:
            opened = self._open.pop((scope, request_id), None) if isinstance(request_id, int | str) else None
        if opened is not None and opened.call is not None:
            self._judge.report(opened.call, "error", "cancelled")

    def _judged(self, opened: _OpenRequest, message: Message) -> Message:
        result, failed = message.get("result"), message.get("error")
        if opened.call is None:
            why = self._judge.read(opened.session, opened.method, result) if result else ""
            return error(opened.id, why) if why else message
        if isinstance(result, dict) and result.get("resultType") == "input_required":
            return self._half(opened, opened.call, result, message)
        is_error = failed is not None or (isinstance(result, dict) and result.get("isError") is True)
        output = result if failed is None else failed
        why = self._judge.report(opened.call, "error" if is_error else "ok", output)
        return _tool_error(opened, why) if why else message

    def _half(self, opened: _OpenRequest, call: McpCall, result: Message, message: Message) -> Message:
        """Show what a server asks for before it goes on with a call. The call is not over."""
        why = self._judge.read(opened.session, CALL, result)
        if why:
            return _tool_error(opened, why)
        with self._lock:
            self._halves[_half_key(call, opened.arguments, result.get("requestState"))] = call
            while len(self._halves) > _MOST_HALVES:
                del self._halves[next(iter(self._halves))]
        return message

    def _call(self, message: Message, params: Message, session: SessionKey) -> McpCall:
        """Return the call of a request; the second half of one has the ids of the first."""
        call = call_of(message, session)
        if "requestState" not in params:
            return call
        key = _half_key(call, digest_of(call.args), params["requestState"])
        with self._lock:
            return self._halves.pop(key, call)._replace(args=call.args)


def _with_arguments(message: Message, args: Json, call: McpCall) -> Message:
    """Return the request with the arguments that it may run with."""
    return message if args is call.args else {**message, "params": {**message["params"], "arguments": args}}


def _opened(message: Message, session: SessionKey, call: McpCall | None) -> _OpenRequest:
    kept = call._replace(args=None) if call is not None else None
    digest = digest_of(call.args) if call is not None else ""
    return _OpenRequest(message["id"], message["method"], session, kept, digest, names_version(message))


def _tool_error(opened: _OpenRequest, why: str) -> Message:
    return tool_error(opened.id, why, has_type=opened.names_version)


def _half_key(call: McpCall, arguments: str, state: Json) -> str:
    return digest_of([call.session.id, call.tool, arguments, state])


_NOT_ASKED: Final = "the client was not asked: its gate does not allow this request"
_NOT_TOLD: Final = "what the client answered is withheld: its gate does not allow it"
_PING: Final = "ping"  # says nothing, and is answered with nothing
# Others are refused: a server that asks for `confirm` must not look like a client that called it.
_METHODS: Final = frozenset(
    (
        *(_PING, "sampling/createMessage", "elicitation/create", "roots/list"),
        *("tasks/get", "tasks/result", "tasks/list", "tasks/cancel"),
    )
)
_MOST: Final = 1024  # requests that wait for their client; the oldest goes first, and its answer goes nowhere


class Shown(NamedTuple):
    """What becomes of a server's message: the client sees it, or the server is answered, or neither."""

    forward: bytes = b""
    answer: bytes = b""


class ServerRequests:
    """Judges what a server asks its client for. Safe to call from many threads."""

    def __init__(self, judge: McpJudge) -> None:
        self._judge = judge
        self._waiting: dict[tuple[str, int | str], McpCall] = {}
        self._lock = Lock()

    def ask(self, message: Message, session: SessionKey, scope: str) -> Shown:
        """Return what becomes of a request."""
        if message["method"] not in _METHODS:
            return _refused(message, "a client is not asked for this", NO_METHOD)
        call = McpCall(session, message["method"], message.get("params") or {}, uuid4().hex, uuid4().hex)
        key = (scope, message["id"])
        with self._lock:
            if key in self._waiting:
                return _refused(message, "a request of this id waits for its answer; take another id")
            self._waiting[key] = call._replace(args=None)
            while len(self._waiting) > _MOST:
                del self._waiting[next(iter(self._waiting))]
        if call.tool == _PING:
            return Shown(forward=write_message(message))
        ruling = self._judge.check(call)
        why = ruling.refusal
        if not why:
            why = self._judge.read(session, call.tool, ruling.args, "was asked for")
            if not why:
                changed = message if ruling.args is call.args else {**message, "params": ruling.args}
                return Shown(forward=write_message(changed))
            self._judge.report(call, "blocked")
        with self._lock:
            self._waiting.pop(key, None)
        _logger.warning("a request of the server was refused: %s", why)
        return _refused(message, _NOT_ASKED)

    def answer(self, message: Message, scope: str) -> bytes:
        """Return what the server is told of a client's answer; BadMessageError where no request waits for it."""
        call = self._taken(scope, message.get("id", ""))
        if call is None:
            raise BadMessageError(NOT_VALID, "no request of the server waits for this answer")
        why = ""
        if call.tool != _PING:
            failed = message.get("error")
            status, output = ("ok", message.get("result")) if failed is None else ("error", failed)
            why = self._judge.report(call, status, output, "the client has answered")
            if why:
                _logger.warning("an answer to the server was withheld: %s", why)
        return write_message(error(message["id"], _NOT_TOLD) if why else message)

    def cancel(self, scope: str, request_id: object) -> None:
        """Take a request back that the server does not wait for any more."""
        call = self._taken(scope, request_id) if isinstance(request_id, int | str) else None
        if call is not None and call.tool != _PING:
            self._judge.report(call, "error", "cancelled")

    def _taken(self, scope: str, request_id: int | str) -> McpCall | None:
        with self._lock:
            return self._waiting.pop((scope, request_id), None)


def _refused(message: Message, why: str, code: int = NO_ANSWER) -> Shown:
    return Shown(answer=write_message(error(message["id"], why, code)))
