"""Questions to a gate about MCP: calls before they run, results before they are shown."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from stream_guard.agent_hooks.asking import doubts, finding, plain, refusal
from stream_guard.agent_hooks.client import GateError
from stream_guard.http.traceparent import trace_labels
from stream_guard.judge.model import Json
from stream_guard.mcp_wire.messages import NOT_VALID, BadMessageError, Message
from stream_guard.mcp_wire.session_keys import SessionKey

if TYPE_CHECKING:
    from stream_guard.agent_hooks.asking import AskedGate

_STOPPING: Final = ("block", "pause", "terminate_session")
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
            said = self._gate.post("/v1/events", {"events": [event]})
        except GateError as error:
            return self._unjudged("a result", f"{why}: {error}")
        refused = said.get("refused") or []
        if refused:
            return self._unjudged("a result", f"{why}: {refused[0].get('reason')}")
        if said.get("action") not in _STOPPING:
            return ""
        found = "; ".join(finding(alert) for alert in said.get("alerts") or [])
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
