"""A rule about what must not follow: parameters, state, rule, hook. Copy this folder and write your own."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg


class NoCallAfterParams(sg.Params):
    """What a policy writes under ``params``."""

    tool: sg.ToolPattern = Field(description="the tools that must stay quiet from then on")
    after: sg.ToolPattern = Field(description="the tools whose call closes the door")


class NoCallAfterState(sg.State):
    """What the engine keeps of one session, and hands in again after a restart."""

    closed_by: str = ""


class NoCallAfter(sg.Rule[NoCallAfterParams, NoCallAfterState]):
    """``tool`` must not be called once ``after`` has been."""

    kind = "no_call_after"
    examples = (
        sg.Example(
            claim="a charge after the account was closed is a hit",
            params={"tool": "charge_card", "after": "close_account"},
            trace=[{"call": "close_account"}, {"call": "charge_card"}],
            hits=[1],
        ),
        sg.Example(
            claim="a charge before it is fine",
            params={"tool": "charge_card", "after": "close_account"},
            trace=[{"call": "charge_card"}, {"call": "close_account"}],
        ),
    )

    def on_tool_call(self, call: sg.ToolCall, state: NoCallAfterState) -> sg.Hit | None:
        """Judge before closing: the call that closes the door is not late itself."""
        if state.closed_by and self.params.tool.matches(call.tool):
            return sg.Hit(f"{call.tool} was called after {state.closed_by}")
        if not state.closed_by and self.params.after.matches(call.tool):
            state.closed_by = call.tool[:100]  # an agent may make up a name of any length; state is bounded
        return None


@sg.hookimpl
def stream_guard_rules() -> list[sg.RuleType]:
    """Return every kind of this plugin."""
    return [NoCallAfter]
