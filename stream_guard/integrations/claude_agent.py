"""Claude Agent SDK: hooks before and after tool use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stream_guard.guard.gate import PROBE, Gate
from stream_guard.integrations.attempts import Attempt, refusal_text
from stream_guard.judge.model import Action

if TYPE_CHECKING:
    from claude_agent_sdk import HookMatcher
    from claude_agent_sdk.types import HookContext, HookEvent, HookInput, HookJSONOutput, SyncHookJSONOutput


class ToolHooks:
    """``ClaudeAgentOptions(hooks=ToolHooks(gate).hooks)`` puts the gate before every tool of every agent.

    Block and pause deny the call and tell the model why; ``terminate_session`` also stops the conversation. A
    hook that fails denies the call. After an approval, the model's next try of the same call goes through.
    """

    def __init__(self, gate: Gate, session_id: str = "") -> None:
        from claude_agent_sdk import HookMatcher  # noqa: PLC0415  (an extra)

        self._gate = gate
        self._session_id = session_id  # the SDK's own when it is empty
        # Without "block" the SDK allows the call when a hook raises.
        self.hooks: dict[HookEvent, list[HookMatcher]] = {
            "PreToolUse": [HookMatcher(hooks=[self.before], on_failure="block")],
            "PostToolUse": [HookMatcher(hooks=[self.after])],
            "PostToolUseFailure": [HookMatcher(hooks=[self.after])],
        }

    async def before(self, data: HookInput, call_id: str | None, context: HookContext) -> HookJSONOutput:
        """Answer whether a tool may run."""
        del context
        if data["hook_event_name"] != "PreToolUse":
            return {}
        attempt = self._attempt(data, call_id)
        ruling = await asyncio.to_thread(attempt.check)
        if ruling.action is Action.ALLOW:
            return {}
        reason = refusal_text(ruling)
        denied: SyncHookJSONOutput = {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": reason,
            }
        }
        if ruling.action is Action.TERMINATE_SESSION:
            denied["continue_"], denied["stopReason"] = False, reason
        return denied

    async def after(self, data: HookInput, call_id: str | None, context: HookContext) -> HookJSONOutput:
        """Report the result of a call."""
        del context
        if data["hook_event_name"] == "PostToolUse":
            await asyncio.to_thread(self._attempt(data, call_id).report, "ok", data["tool_response"])
        elif data["hook_event_name"] == "PostToolUseFailure":
            await asyncio.to_thread(self._attempt(data, call_id).report, "error", data["error"])
        return {}

    def probe(self) -> bool:
        """Send a probe through the registered hook; True when it was denied."""
        data: Any = {"hook_event_name": "PreToolUse", "session_id": PROBE, "tool_name": PROBE, "tool_input": {}}
        [matcher] = self.hooks["PreToolUse"]
        answer: Any = asyncio.run(_wait(matcher.hooks[0](data, PROBE, {"signal": None})))
        return bool(answer.get("hookSpecificOutput", {}).get("permissionDecision") == "deny")

    def _attempt(self, data: Any, call_id: str | None) -> Attempt:
        session = self._session_id or data["session_id"]
        agent = data.get("agent_type") or ""
        return Attempt(self._gate, session, data["tool_name"], data["tool_input"], call_id or "", agent)


async def _wait(answer: Any) -> Any:
    return await answer
