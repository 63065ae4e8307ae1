"""Claude Code: what its hooks say, told to a gate; and what the gate says, told to Claude Code.

The contract is that of Claude Code 2.1: one JSON object on standard input, one on standard output, or nothing.
"""

from __future__ import annotations

import time

from stream_guard.agent_hooks.client import CUT, GateClient, GateError

TYPE_CHECKING = False  # typing would take longer to import than the rest
if TYPE_CHECKING:
    from typing import Any

ON_ERROR = ("closed", "ask", "open")
_REASONS = 20  # of obligations, findings: more would bury the first ones


class ClaudeCodeHook:
    """Answers one hook. ``on_error`` says what a tool call gets that the gate could not judge."""

    def __init__(self, client: GateClient, *, on_error: str = "closed", agent: str = "") -> None:
        self._client, self._on_error, self._agent = client, on_error, agent

    def answer(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return what Claude Code is told; an empty answer changes nothing."""
        event = data.get("hook_event_name")
        if event == "PreToolUse":
            return self._before(data)
        if event == "Stop":
            return self._stop(data)
        told = _happened(str(event), data)
        if told is None:
            return _warn(f"the hook of {str(event)[:40]!r} has nothing to tell the gate; take it out of the settings")
        return self._tell({**self._header(data), **told})

    def _before(self, data: dict[str, Any]) -> dict[str, Any]:
        header = self._header(data)
        call = {**header, **_call(data)}
        try:
            # A turn that announces the call: rules that count turns, or wait for what the next one does, go by it.
            found = self._send(_turn(header, [], "tool_use"))
            ruling = self._client.post("/v1/check", {**call, "args": data.get("tool_input")})
        except GateError as error:
            return self._unjudged(str(error))
        action, text = str(ruling.get("action")), _refusal(ruling)
        if action == "allow":
            return _warn("; ".join([*found, *_unsure(ruling)]))
        # Claude Code runs no tool after this and tells no result, so that the gate would wait for one.
        self._tell({"kind": "tool_result", "status": "blocked", **call})
        answer = _decide("deny", text)
        if action == "terminate_session":
            answer |= {"continue": False, "stopReason": text}
        return answer

    def _unjudged(self, why: str) -> dict[str, Any]:
        """Answer for a call that nobody judged, as the settings say."""
        if self._on_error == "open":
            return _warn(f"this call was allowed without being judged: {why}")
        if self._on_error == "ask":
            return _decide("ask", f"stream_guard could not judge this call: {why}")
        return _decide("deny", f"Not run: stream_guard could not judge this call: {why}")

    def _stop(self, data: dict[str, Any]) -> dict[str, Any]:
        """Let the agent stop when no obligation is open, and else say what is missing."""
        header, said = self._header(data), data.get("last_assistant_message")
        try:
            content = [{"type": "text", "text": str(said)}] if said else []
            found = self._send(_turn(header, content, "end_turn"))
            owed = self._client.post("/v1/obligations", header).get("obligations") or []
        except GateError as error:
            text = f"nobody can say whether an obligation is open: {error}"
            # Once: an agent cannot mend the gate, and must not work for ever because it is out.
            if self._on_error == "closed" and not data.get("stop_hook_active"):
                return {"decision": "block", "reason": f"stream_guard: {text} Tell the user, then stop."}
            return _warn(text)
        if not owed:
            return _warn("; ".join(found))
        lines = [f"- {_worded(alert)}" for alert in owed[:_REASONS]]
        more = [f"- and {len(owed) - _REASONS} more"] if len(owed) > _REASONS else []
        reason = "\n".join(["stream_guard: not finished yet.", *lines, *more])
        return {"decision": "block", "reason": reason, **_warn("; ".join(found))}

    def _tell(self, event: dict[str, Any]) -> dict[str, Any]:
        """Tell the gate what happened; the user is shown what rules found, and what went wrong."""
        try:
            return _warn("; ".join(self._send(event)))
        except GateError as error:
            return _warn(f"the gate was not told of this {event['kind']}: {error}")

    def _send(self, event: dict[str, Any]) -> list[str]:
        """Tell the gate of an event; return what rules found, in words."""
        try:
            said = self._client.post("/v1/events", {"events": [event]})
        except GateError as error:
            if error.status not in (413, CUT) or "output" not in event:
                raise
            # Too large for the gate: that the call ended counts more than what it gave.
            said = self._client.post("/v1/events", {"events": [{**event, "output": None}]})
        refused = said.get("refused") or []
        if refused:
            raise GateError(f"the gate did not take it: {refused[0].get('reason')}")
        return [_worded(alert) for alert in (said.get("alerts") or [])[:_REASONS]]

    def _header(self, data: dict[str, Any]) -> dict[str, Any]:
        header: dict[str, Any] = {"session_id": str(data.get("session_id") or ""), "time": time.time()}
        helper = str(data.get("agent_type") or "")
        if helper:
            header |= {"agent": helper} | ({"agent_path": [self._agent]} if self._agent else {})
        elif self._agent:
            header["agent"] = self._agent
        return header


def _turn(header: dict[str, Any], content: list[dict[str, str]], stop_reason: str) -> dict[str, Any]:
    return {"kind": "turn", **header, "response": {"content": content, "stop_reason": stop_reason}}


def _call(data: dict[str, Any]) -> dict[str, Any]:
    return {"tool": str(data.get("tool_name") or ""), "call_id": str(data.get("tool_use_id") or "")}


def _happened(event: str, data: dict[str, Any]) -> dict[str, Any] | None:
    """Return the event of the gate that a hook tells of, but for its header; None where it tells of none."""
    if event == "PostToolUse":
        return {"kind": "tool_result", **_call(data), "status": "ok", "output": data.get("tool_response")}
    if event == "PostToolUseFailure":
        return {"kind": "tool_result", **_call(data), "status": "error", "output": data.get("error")}
    if event == "UserPromptSubmit":
        return {"kind": "user_message", "text": str(data.get("prompt") or "")}
    if event == "SessionEnd":
        return {"kind": "session_end"}
    return None


def _refusal(ruling: dict[str, Any]) -> str:
    """Return what the model is told: what became of the call, why, and which rule says so."""
    action, reason = ruling.get("action"), str(ruling.get("reason") or "")
    review = ruling.get("review")
    if action == "pause":
        name = f" {review['id']}" if isinstance(review, dict) else ""
        began = f"Not run: a person has to approve this first (review{name})."
    elif action == "allow":
        began = ""
    else:
        began = f"Not run: {'the session is over' if action == 'terminate_session' else 'this is not allowed'}."
    rules = [_worded(alert) for alert in (ruling.get("alerts") or [])[:_REASONS]]
    listed = f"[{'; '.join(rules)}]" if rules else ""
    # What was found stands in the list; a reason without words of the policy's own has the way already.
    way = str(ruling.get("advice") or "").partition("to pass: ")[2] if "to pass: " not in reason else ""
    return " ".join(_plain(part) for part in (began, reason, listed, f"To pass: {way}." if way else "") if part)


def _unsure(ruling: dict[str, Any]) -> list[str]:
    """Return why an allowed call was not judged, or not by all rules; nothing where no rule was to be asked."""
    if ruling.get("judged"):
        return []
    rules = (ruling.get("rules") or {}).get("unevaluable") or []
    if rules:
        return [f"this call was allowed although rules could not judge it: {', '.join(map(str, rules[:_REASONS]))}"]
    reason = ruling.get("reason")
    return [f"this call was allowed, {reason}"] if reason else []


def _worded(alert: Any) -> str:
    """Return one finding in a line: the rule, its own reason, and what it found."""
    said = [str(alert.get(name) or "") for name in ("reason", "detail")]
    return _plain(f"{alert.get('rule_id')}: {' '.join(dict.fromkeys(filter(None, said)))}")


def _decide(decision: str, reason: str) -> dict[str, Any]:
    specific = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": specific}


def _warn(text: str) -> dict[str, Any]:
    """Return a message for the user, if there is something to say; the agent's work goes on."""
    return {"systemMessage": _plain(f"stream_guard: {text}")} if text else {}


def _plain(text: str) -> str:
    """Return the text without control characters: it ends up in a terminal, and agents wrote parts of it."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
