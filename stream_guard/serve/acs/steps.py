"""Steps of ACS as questions to the gate: what is asked or told about each, and its answer as a disposition."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from stream_guard.agent_hooks.client import GateError
from stream_guard.agent_hooks.reasons import finding, refusal
from stream_guard.mcp_wire.messages import BadMessageError, read_message, write_message
from stream_guard.serve.acs.envelope import INVALID_PARAMS, AcsError
from stream_guard.serve.this_gate import ThisGate

_STOPPING: Final = ("block", "pause", "terminate_session")
_STATUS: Final = {"success": "ok", "failure": "error", "timeout": "error", "blocked": "blocked"}
_RETRY_MS: Final = 20_000  # in which the gate gives the answer to a question that it could not judge in time
WRAPPED: Final = "protocols/MCP/"
_UNJUDGED: Final = "unjudged"
_NO_ASK, _NO_MODIFY = "approver_unavailable", "modify_unsupported"  # codes of the standard
SUBSTITUTED: Final = frozenset((_NO_ASK, _NO_MODIFY))  # of a disposition that its client could not carry out
# Steps that are judged as calls of a tool with their name, and steps that bring content in.
_AS_CALLS: Final = ("steps/subagentStart", "steps/memoryStore", "steps/skillRegister", "steps/skillLoad")
_AS_RESULTS: Final = ("steps/knowledgeRetrieval", "steps/memoryContextRetrieval")
_SILENT: Final = (
    "steps/sessionStart",
    "steps/turnStart",
    "steps/turnEnd",
    "steps/preCompact",
    "steps/postCompact",
    "steps/subagentStop",
    "steps/skillUnload",
)

Disposition = dict[str, Any]


class AcsStep:
    """One step of a session, as the gate is asked about it."""

    def __init__(
        self,
        gate: ThisGate,
        method: str,
        params: Mapping[str, Any],
        *,
        can_ask: bool = True,
        can_modify: bool = True,
        changing: frozenset[str] = frozenset(),
    ) -> None:
        """Take a step with what its client can do; ``changing`` are the rules whose changes it cannot carry out."""
        self._gate, self._method, self._params = gate, method, params
        self._can_ask, self._can_modify, self._changing = can_ask, can_modify, changing
        self._payload: dict[str, Any] = params.get("payload") or {}

    def decide(self) -> Disposition:
        """Return the disposition; AcsError for a payload that is not what the method has."""
        if self._method.startswith(WRAPPED):
            return self._wrapped()
        return _WAYS[self._method](self)

    def call(self) -> Disposition:
        """Ask about the call of a tool."""
        tool, wrapped = self._payload.get("tool"), self._payload.get("arguments", {})
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not isinstance(wrapped, dict):
            raise AcsError(INVALID_PARAMS, "payload.tool.name is a text, and payload.arguments an object")
        args = {key: _value(item) for key, item in wrapped.items()}
        ruling = self._check(name, args, may_modify=self._can_modify)
        return self._modified(ruling, args) if ruling["action"] == "modify" else self._disposition(ruling)

    def as_call(self) -> Disposition:
        """Ask about a step as about the call of a tool with its name."""
        return self._disposition(self._check(self._method.rpartition("/")[2], self._payload))

    def result(self) -> Disposition:
        """Tell what came of a call."""
        tool, status = self._payload.get("tool"), _STATUS.get(str(self._payload.get("exit_status")), "error")
        name = tool.get("name", "") if isinstance(tool, dict) else ""
        told = {"tool": name, "status": status, "output": self._payload.get("outputs")}
        ref = self._payload.get("request_id_ref")
        return self._tell({"kind": "tool_result", **told, **({"call_id": ref} if isinstance(ref, str) else {})})

    def as_result(self) -> Disposition:
        """Tell of content that came in."""
        name = self._method.rpartition("/")[2]
        return self._tell({"kind": "tool_result", "tool": name, "status": "ok", "output": self._payload})

    def message(self) -> Disposition:
        """Tell what a person, or what started the agent, said."""
        return self._tell({"kind": "user_message", "text": _text(self._payload)})

    def response(self) -> Disposition:
        """Tell what the agent is about to say."""
        said = {"content": [{"type": "text", "text": _text(self._payload)}], "stop_reason": "end_turn"}
        return self._tell({"kind": "turn", "response": said})

    def end(self) -> Disposition:
        """Tell that the session is over; what is found then denies nothing any more."""
        return {**self._tell({"kind": "session_end"}), "decision": "allow"}

    def nothing(self) -> Disposition:
        """Let a step pass that says nothing to a gate."""
        return {"decision": "allow"}

    def _wrapped(self) -> Disposition:
        """Ask about a message of MCP: a call before it goes out, whatever a server answered before it is shown."""
        try:
            message = read_message(write_message(self._payload))
        except BadMessageError as error:
            raise AcsError(INVALID_PARAMS, f"payload is no message of MCP: {error}") from None
        method = self._method.removeprefix(WRAPPED)
        if message.get("method", method) != method:
            raise AcsError(INVALID_PARAMS, "the message is of another method than the request")
        if "result" in message:
            return self._tell({"kind": "tool_result", "tool": method, "status": "ok", "output": message["result"]})
        params = message.get("params") or {}
        if method == "tools/call":
            return self._disposition(self._check(str(params.get("name") or ""), params.get("arguments") or {}))
        return self.nothing()

    def _check(self, tool: str, args: Any, *, may_modify: bool = False) -> dict[str, Any]:
        # The id of the request is that of the call, to which results refer.
        call_id = self._params["request_id"]
        asked = {"tool": tool, "args": args, "call_id": call_id, "event_id": call_id}
        try:
            return self._gate.post(
                "/v1/check", {**self._header(), **asked, "may_modify": may_modify, "may_defer": True}
            )
        except GateError as error:
            return {"action": _UNJUDGED, "reason": str(error), "alerts": []}

    def _disposition(self, ruling: dict[str, Any]) -> Disposition:
        """Return a ruling in the words of the standard."""
        action, references = ruling["action"], _references(ruling["alerts"])
        cited = {"policy_references": references} if references else {}
        if action == "allow":
            return {"decision": "allow", **cited}
        if action == _UNJUDGED:
            return {"decision": "deny", "reasoning": ruling["reason"], "reason_codes": [_UNJUDGED]}
        said = {"reasoning": refusal(ruling), **cited}
        if action == "pause":
            return {**said, **_asking(ruling, can_ask=self._can_ask)}
        if action == "defer":
            return {**said, **_deferring(_RETRY_MS)}
        if action == "terminate_session":
            return {"decision": "deny", **said, "reason_codes": ["session_ended"]}
        needs_change = any(alert["rule_id"] in self._changing for alert in ruling["alerts"])
        return {"decision": "deny", **said, **({"reason_codes": [_NO_MODIFY]} if needs_change else {})}

    def _modified(self, ruling: dict[str, Any], args: Mapping[str, Any]) -> Disposition:
        """Return a change of arguments as overrides by name; one that takes an argument out, as a new payload."""
        changed, rules = ruling["args"], ", ".join(ruling["modified_by"])
        edits: dict[str, Any]
        if set(args) - set(changed):
            wrapped = self._payload["arguments"]
            arguments = {name: _rewrapped(wrapped.get(name), value) for name, value in changed.items()}
            edits = {"modified_content": write_message({**self._payload, "arguments": arguments}).decode()}
        else:
            overrides = {name: value for name, value in changed.items() if name not in args or args[name] != value}
            edits = {"parameter_overrides": overrides}
        return {"decision": "modify", "reasoning": f"arguments were changed by {rules}", "modifications": edits}

    def _tell(self, event: dict[str, Any]) -> Disposition:
        told = {**self._header(), "event_id": self._params["request_id"], **event}
        try:
            said = self._gate.post("/v1/events", {"events": [told]})
        except GateError as error:
            return {"decision": "deny", "reasoning": str(error), "reason_codes": [_UNJUDGED]}
        refused, action = said.get("refused") or [], said.get("action")
        if refused:
            return {"decision": "deny", "reasoning": str(refused[0]["reason"]), "reason_codes": [_UNJUDGED]}
        if action not in _STOPPING:
            return {"decision": "allow"}
        alerts = said["alerts"]
        reasoning = "; ".join(finding(alert) for alert in alerts)
        return {"decision": "deny", "reasoning": reasoning, "policy_references": _references(alerts)}

    def _header(self) -> dict[str, Any]:
        metadata = self._params["metadata"]
        return {"session_id": metadata["session_id"], "agent": metadata["agent_id"], "time": time.time()}


_WAYS: Final[Mapping[str, Callable[[AcsStep], Disposition]]] = {
    "steps/toolCallRequest": AcsStep.call,
    "steps/toolCallResult": AcsStep.result,
    "steps/userMessage": AcsStep.message,
    "steps/agentTrigger": AcsStep.message,
    "steps/agentResponse": AcsStep.response,
    "steps/sessionEnd": AcsStep.end,
    **dict.fromkeys(_AS_CALLS, AcsStep.as_call),
    **dict.fromkeys(_AS_RESULTS, AcsStep.as_result),
    **dict.fromkeys(_SILENT, AcsStep.nothing),
}
METHODS: Final = tuple(_WAYS)


def _asking(ruling: dict[str, Any], *, can_ask: bool) -> Disposition:
    """Return a question to a person; for a client that cannot ask one, that somebody has to answer it elsewhere."""
    review = ruling["review"]
    seconds = max(1, int((review["expires"] or 0) - review["opened"]))
    found = {"policy_data": {"review": review["id"]}}
    if not can_ask:
        return {**_deferring(seconds * 1000), "reason_codes": [_NO_ASK], **found}
    approver = {"type": "human", "id": "stream_guard_reviewer"}
    question = ruling["reason"] or refusal(ruling)
    details = {"approver": approver, "question": question, "timeout_seconds": seconds}
    return {"decision": "ask", "ask_details": details, **found}


def _deferring(timeout_ms: int) -> Disposition:
    details = {"reason": "pending_dependency", "resolution_method": "retry", "resolution_timeout_ms": timeout_ms}
    return {"decision": "defer", "defer_details": {**details, "timeout_decision": "deny"}}


def _rewrapped(item: Any, value: Any) -> dict[str, Any]:
    return {**(item if isinstance(item, dict) and "value" in item else {}), "value": value}


def _references(alerts: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [
        {"policy_id": "stream_guard", "policy_version": alert["policy_version"], "rule_id": alert["rule_id"]}
        for alert in alerts
    ]


def _value(item: Any) -> Any:
    return item["value"] if isinstance(item, dict) and "value" in item else item


def _text(payload: Mapping[str, Any]) -> str:
    """Return the texts of a payload's content, one after the other."""
    content = payload.get("content", payload.get("text", ""))
    if isinstance(content, list):
        return "\n".join(str(_value(item)) for item in content)
    return str(_value(content))
