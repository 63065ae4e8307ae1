"""Questions to a gate about MCP: calls before they run, results before they are shown.

Where the protocol has no session, the first of several keys that a message carries stands for one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from stream_guard.agent_hooks.asking import STOPPING, doubts, finding, plain, refusal, tell
from stream_guard.agent_hooks.client import GateError
from stream_guard.errors import SettingsError
from stream_guard.http.traceparent import LABEL, read_traceparent, trace_labels
from stream_guard.judge.model import Json
from stream_guard.mcp_wire.messages import NOT_VALID, BadMessageError, Message
from stream_guard.policy.message_parts import did_you_mean, show

if TYPE_CHECKING:
    from stream_guard.agent_hooks.asking import AskedGate

META: Final = "io.github.stream-guard/session"  # the key of ``_meta`` by which a client names its session
DEFAULT: Final = "meta,mcp-session,connection"
_SORTS: Final = ("meta", "mcp-session", "trace", "principal", "connection")
_HEADER: Final = "header:"
_LONGEST: Final = 200


class SessionKey(NamedTuple):
    """The id of a session, what it was taken from, and the trace context of the message."""

    id: str
    by: str
    traceparent: str = ""


class SessionKeys:
    """Finds the session of a message, by an order such as ``meta,trace,connection``.

    ``meta`` is what the client says under ``io.github.stream-guard/session``; ``mcp-session`` the header of protocol
    versions that have sessions; ``header:NAME`` one that a gateway sets; ``trace`` the trace id of ``traceparent``;
    ``principal`` a digest of the credentials; ``connection`` this process, which is what is left. ``fixed`` goes
    before all of them.
    """

    def __init__(self, order: str = DEFAULT, fixed: str = "") -> None:
        self._order = tuple(word.strip() for word in order.split(","))
        for word in self._order:
            if word not in _SORTS and (not word.startswith(_HEADER) or word == _HEADER):
                advice = f"write some of {', '.join(_SORTS)}, {_HEADER}NAME, with commas between them"
                raise SettingsError(
                    f"--session-by: {show(word)} is no key of a session{did_you_mean(word, _SORTS)}; {advice}"
                )
        self._fixed = fixed
        self._connection = uuid4().hex

    def find(self, params: Mapping[str, Any], headers: Mapping[str, str]) -> SessionKey:
        """Return the session of a message; ``headers`` have lower-case names, and are empty without HTTP."""
        said = params.get("_meta")
        meta = said if isinstance(said, dict) else {}
        parent = trace_labels(meta.get(LABEL) or headers.get(LABEL)).get(LABEL, "")
        if self._fixed:
            return SessionKey(self._fixed, "fixed", parent)
        for word in self._order:
            found = self._value(word, meta, headers, parent)
            if found:
                return SessionKey(found[:_LONGEST], word, parent)
        return SessionKey(_named("connection", self._connection), "connection", parent)

    def _value(self, word: str, meta: Mapping[str, Any], headers: Mapping[str, str], parent: str) -> str:
        if word == "meta":
            named = meta.get(META)
            return named if isinstance(named, str) else ""
        if word == "mcp-session":
            return _named(word, headers.get("mcp-session-id", ""))
        if word == "trace":
            place = read_traceparent(parent)
            return _named(word, place.trace_id if place is not None else "")
        if word == "principal":
            shown = headers.get("authorization", "")
            return _named(word, sha256(shown.encode()).hexdigest()[:32] if shown else "")
        if word == "connection":
            return _named(word, self._connection)
        return headers.get(word.removeprefix(_HEADER).lower(), "")


def _named(word: str, value: str) -> str:
    """Return the value with its sort, so that the audit says what a session is made of; nothing for nothing."""
    return f"{word}:{value}" if value else ""


_logger = logging.getLogger(__name__)


class McpCall(NamedTuple):
    """One call of a tool, as the gate knows it."""

    session: SessionKey
    tool: str
    args: Json
    id: str
    event_id: str


def call_of(message: Message, session: SessionKey) -> McpCall:
    """Return the call of a request; BadMessageError when it names no tool."""
    params = message.get("params") or {}
    tool, args = params.get("name"), params.get("arguments")
    if not isinstance(tool, str):
        raise BadMessageError(NOT_VALID, "a call names its tool in params.name, as a text", message.get("id"))
    # Ids of our own: clients count their requests from 0, and share sessions.
    return McpCall(session, tool, {} if args is None else args, uuid4().hex, uuid4().hex)


class McpRuling(NamedTuple):
    """Why a call must not run, or nothing; and the arguments that it runs with."""

    refusal: str
    args: Json


class McpJudge:
    """Asks a gate; what the gate cannot judge is refused, unless ``on_error`` is ``open``.

    ``can_modify`` says whether a call can be passed on with other arguments.
    """

    def __init__(self, gate: AskedGate, *, agent: str = "", on_error: str = "closed", can_modify: bool = True) -> None:
        self._gate, self._agent, self._is_open, self._can_modify = gate, agent, on_error == "open", can_modify

    def check(self, call: McpCall) -> McpRuling:
        """Return why a call must not run, in words for the model, or with which arguments it runs."""
        asked = {"tool": call.tool, "call_id": call.id, "event_id": call.event_id, "args": call.args}
        asked["may_modify"] = self._can_modify
        try:
            ruling = self._gate.post("/v1/check", {**self._header(call.session), **asked})
        except GateError as error:
            why = self._unjudged("this call", f"Not run: stream_guard could not judge this call: {error}")
            return McpRuling(why, call.args)
        if ruling.get("action") == "allow":
            for doubt in doubts(ruling):
                _logger.warning("%s", plain(doubt))
            return McpRuling("", call.args)
        if ruling.get("action") == "modify":
            return McpRuling("", ruling["args"])
        if ruling.get("judged"):  # a gate that is too slow to judge is not asked to wait for more
            self.report(call, "blocked")
        return McpRuling(refusal(ruling), call.args)

    def report(self, call: McpCall, status: str, output: Json = None, happened: str = "the tool has run") -> str:
        """Tell the gate what came of a call; return why that must not be shown, nothing where it may."""
        told = {"tool": call.tool, "call_id": call.id, "status": status, "output": output}
        return self._tell(call.session, told, happened)

    def read(self, session: SessionKey, method: str, said: Json, happened: str = "was answered") -> str:
        """Tell the gate what a server said, under the name of a method; return as ``report``."""
        return self._tell(session, {"tool": method, "status": "ok", "output": said}, f"{method} {happened}")

    def _tell(self, session: SessionKey, told: dict[str, Any], happened: str) -> str:
        event = {**self._header(session), "kind": "tool_result", "event_id": uuid4().hex, **told}
        why = f"Withheld: {happened}, and stream_guard could not judge what came back"
        try:
            alerts, action = tell(self._gate, event)
        except GateError as error:
            return self._unjudged("a result", f"{why}: {error}")
        if action not in STOPPING:
            return ""
        found = "; ".join(map(finding, alerts))
        return plain(f"Withheld: {happened}, and what came back is not shown. [{found}]")

    def _unjudged(self, what: str, why: str) -> str:
        if self._is_open:
            _logger.warning("%s passed without being judged: %s", what, plain(why))
            return ""
        return plain(why)

    def _header(self, session: SessionKey) -> dict[str, Any]:
        labels = {"session_by": session.by} | trace_labels(session.traceparent)
        header = {"session_id": session.id, "time": time.time(), "labels": labels}
        return header | ({"agent": self._agent} if self._agent else {})
