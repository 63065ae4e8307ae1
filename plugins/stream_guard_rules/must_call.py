"""A tool is called at least once."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import spoken

_MOST_OPEN_ATTEMPTS = 8  # attempts that may still run


class MustCallParams(sg.Params):
    """Parameters of ``must_call``."""

    tool: sg.ToolPattern = Field(description="the tool to be called: a name, a glob, or a list of which one is enough")


class MustCallState(sg.State):
    """Whether an attempt ran, and the attempts that may still run."""

    ran: bool = False
    open: list[int] = []


class MustCall(sg.Rule[MustCallParams, MustCallState]):
    """``tool`` must be called at least once; an attempt that was blocked is no call.

    With a ``when``, a call outside the gate is enough too.
    """

    kind = "must_call"
    fires_once = True
    state_limit = 256
    examples = (
        sg.Example(
            claim="a session without the call is a hit at its end",
            params={"tool": "close_ticket"},
            trace=[{"call": "get_ticket"}, {"end": "closed"}],
            hits=["end"],
        ),
        sg.Example(
            claim="one call or more is right",
            params={"tool": "close_ticket"},
            trace=[{"call": "close_ticket"}, {"call": "close_ticket"}, {"end": "closed"}],
            hits=[],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tool to be called."""
        return self.params.tool

    def rests_on_memory(self, _call: sg.ToolCall) -> bool:
        """No call breaks it."""
        return False

    def on_tool_call(self, call: sg.ToolCall, state: MustCallState) -> None:
        """Count the attempt as a call until it is blocked or held."""
        if not state.ran and call.attempt not in state.open:
            state.open = [*state.open[1 - _MOST_OPEN_ATTEMPTS :], call.attempt]

    def on_decision(self, decision: sg.GateDecision, state: MustCallState) -> None:
        """Remove an attempt that the gate holds or refuses; add it again when the gate allows it."""
        if decision.action != "allow":
            state.open = [attempt for attempt in state.open if attempt != decision.attempt]
        elif not state.ran and decision.attempt not in state.open:
            state.open = [*state.open[1 - _MOST_OPEN_ATTEMPTS :], decision.attempt]

    def on_tool_result(self, result: sg.ToolResult, state: MustCallState) -> None:
        """Record whether the attempt ran."""
        if result.status == "blocked":
            state.open = [attempt for attempt in state.open if attempt != result.attempt]
        else:
            state.ran, state.open = True, []

    def on_ungated(self, event: sg.Event, state: MustCallState) -> None:
        """Count calls outside the gate too."""
        if isinstance(event, sg.ToolCall):
            self.on_tool_call(event, state)
        elif isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)
        elif isinstance(event, sg.GateDecision):
            self.on_decision(event, state)

    def on_session_end(self, _end: sg.SessionEnd, state: MustCallState) -> sg.Hit | None:
        """Fire when no attempt ran and none may still run."""
        if state.ran or state.open:
            return None
        return sg.Hit(
            f"{spoken(self.params.tool, 'what it asks for')} was never called", {"tool": str(self.params.tool)}
        )
