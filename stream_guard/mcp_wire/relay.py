"""The relay: every message between a client and a server passes here, whatever carries it, in every version.

Requests are known by their ids until they are answered. A call is judged before it goes on, and what a server answers
before it is shown. An answer that nobody waits for goes nowhere.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, NamedTuple

from stream_guard.history.canonical import digest_of
from stream_guard.mcp_wire.judge import McpCall, McpJudge, call_of
from stream_guard.mcp_wire.messages import (
    NOT_VALID,
    BadMessageError,
    Message,
    check_headers,
    error,
    read_message,
    tool_error,
    write_message,
)
from stream_guard.mcp_wire.session_keys import SessionKey, SessionKeys
from stream_guard.model import Json

CALL: Final = "tools/call"
_MOST_OPEN: Final = 4096  # requests that wait for an answer
_MOST_HALVES: Final = 256  # calls that wait for what their server asked for
_NO_HEADERS: Final[Mapping[str, str]] = {}

_logger = logging.getLogger(__name__)


class Passed(NamedTuple):
    """What becomes of a client's message: it goes on to the server, or the client is answered, or neither."""

    forward: bytes = b""
    answer: bytes = b""
    is_bad: bool = False  # the answer says that the message was none


class _OpenRequest(NamedTuple):
    request: Message
    session: SessionKey
    call: McpCall | None


class Relay:
    """Judges messages. Safe to call from many threads.

    ``scope`` is where ids of requests are unique: a connection, or a session of the protocol.
    """

    def __init__(self, judge: McpJudge, keys: SessionKeys) -> None:
        self._judge, self._keys = judge, keys
        self._open: dict[tuple[str, int | str], _OpenRequest] = {}
        self._halves: dict[str, McpCall] = {}
        self._lock = Lock()

    def from_client(self, raw: bytes, scope: str = "", headers: Mapping[str, str] = _NO_HEADERS) -> Passed:
        """Return what becomes of a message of the client."""
        try:
            message = read_message(raw)
            if "method" not in message:
                return Passed(forward=write_message(message))  # the answer to a request of the server
            return self._request(message, scope, headers)
        except BadMessageError as refused:
            return Passed(answer=write_message(error(refused.id, str(refused), refused.code)), is_bad=True)

    def from_server(self, raw: bytes, scope: str = "") -> bytes:
        """Return what the client is shown of a message of the server; nothing where it is not to see it."""
        try:
            message = read_message(raw)
        except BadMessageError as refused:
            _logger.warning("a message of the server was dropped: %s", refused)
            return b""
        if "method" in message:
            return write_message(message)  # a notification, or a request to the client
        with self._lock:
            opened = self._open.pop((scope, message.get("id", "")), None)
        if opened is None:
            _logger.warning("an answer of the server was dropped: nobody waits for it")
            return b""
        return write_message(self._judged(opened, message))

    def give_up(self, scope: str, why: str) -> None:
        """Tell the gate that the requests of a scope will not be answered."""
        with self._lock:
            left = [self._open.pop(key) for key in list(self._open) if key[0] == scope]
        for opened in left:
            if opened.call is not None:
                self._judge.report(opened.call, "error", why)

    def _request(self, message: Message, scope: str, headers: Mapping[str, str]) -> Passed:
        params = message.get("params") or {}
        check_headers(message, headers)
        if "id" not in message:
            if message["method"] == CALL:
                raise BadMessageError(NOT_VALID, "a call of a tool needs an id")
            if message["method"] == "notifications/cancelled":
                self._cancel(scope, params.get("requestId"))
            return Passed(forward=write_message(message))
        session = self._keys.find(params, headers)
        call = self._call(message, params, session) if message["method"] == CALL else None
        self._wait(scope, message, _OpenRequest(message, session, call))
        if call is None:
            return Passed(forward=write_message(message))
        ruling = self._judge.check(call)
        if not ruling.refusal:
            return Passed(forward=write_message(_with_arguments(message, ruling.args, call)))
        with self._lock:
            self._open.pop((scope, message["id"]), None)
        return Passed(answer=write_message(tool_error(message, ruling.refusal)))

    def _wait(self, scope: str, message: Message, opened: _OpenRequest) -> None:
        with self._lock:
            if (scope, message["id"]) in self._open:
                raise BadMessageError(NOT_VALID, "a request of this id waits for its answer; take another id")
            if len(self._open) >= _MOST_OPEN:
                raise BadMessageError(NOT_VALID, f"{_MOST_OPEN} requests wait for an answer; wait too", message["id"])
            self._open[scope, message["id"]] = opened

    def _cancel(self, scope: str, request_id: Any) -> None:
        with self._lock:
            opened = self._open.pop((scope, request_id), None) if isinstance(request_id, int | str) else None
        if opened is not None and opened.call is not None:
            self._judge.report(opened.call, "error", "cancelled")

    def _judged(self, opened: _OpenRequest, message: Message) -> Message:
        result, failed = message.get("result"), message.get("error")
        if opened.call is None:
            why = self._judge.read(opened.session, opened.request["method"], result) if result else ""
            return error(opened.request["id"], why) if why else message
        if isinstance(result, dict) and result.get("resultType") == "input_required":
            return self._half(opened, result, message)
        is_error = failed is not None or (isinstance(result, dict) and result.get("isError") is True)
        output = result if failed is None else failed
        why = self._judge.report(opened.call, "error" if is_error else "ok", output)
        return tool_error(opened.request, why) if why else message

    def _half(self, opened: _OpenRequest, result: Message, message: Message) -> Message:
        """Show what a server asks for before it goes on with a call. The call is not over."""
        if opened.call is None:
            raise AssertionError("only a call has a half")
        why = self._judge.read(opened.session, CALL, result)
        if why:
            return tool_error(opened.request, why)
        with self._lock:
            self._halves[_half_key(opened.call, result.get("requestState"))] = opened.call
            while len(self._halves) > _MOST_HALVES:
                del self._halves[next(iter(self._halves))]
        return message

    def _call(self, message: Message, params: Message, session: SessionKey) -> McpCall:
        """Return the call of a request; the second half of one has the ids of the first."""
        call = call_of(message, session)
        if "requestState" not in params:
            return call
        with self._lock:
            return self._halves.pop(_half_key(call, params["requestState"]), call)


def _with_arguments(message: Message, args: Json, call: McpCall) -> Message:
    """Return the request with the arguments that it may run with."""
    return message if args is call.args else {**message, "params": {**message["params"], "arguments": args}}


def _half_key(call: McpCall, state: Json) -> str:
    return digest_of([call.session.id, call.tool, call.args, state])
