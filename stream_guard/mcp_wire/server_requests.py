"""Requests of a server to its client, such as sampling and elicitation: calls of a tool with the name of the method.

A rule may forbid, count, pause or change them. What they say is what a server says, and is judged as such before the
client sees it; what the client answers, before the server does. A server is not told which rule refused it, or why.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import Final, NamedTuple
from uuid import uuid4

from stream_guard.mcp_wire.judge import McpCall, McpJudge
from stream_guard.mcp_wire.messages import (
    NO_ANSWER,
    NO_METHOD,
    NOT_VALID,
    BadMessageError,
    Message,
    error,
    write_message,
)
from stream_guard.mcp_wire.session_keys import SessionKey

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

_logger = logging.getLogger(__name__)


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
