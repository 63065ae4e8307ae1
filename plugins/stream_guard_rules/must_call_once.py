"""A tool is called exactly once."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import spoken

_MOST_OPEN_ATTEMPTS = 8  # attempts that may still run


class MustCallOnceParams(sg.Params):
    """Parameters of ``must_call_once``."""

    tool: sg.ToolPattern = Field(description="the tool to be called once: a name, a glob, or a list of them")


class MustCallOnceState(sg.State):
    """How many attempts there were, whether one ran, and the attempts that may still run."""

    count: int = 0
    ran: bool = False
    open: tuple[int, ...] = ()  # an empty tuple takes no memory


class MustCallOnce(sg.Rule[MustCallOnceParams, MustCallOnceState]):
    """``tool`` must be called exactly once.

    Every attempt after the first is a hit, even a blocked one. At the end of the session, a blocked attempt is no
    call. With a ``when``, calls outside the gate are not counted, but one of them is enough for the end.
    """

    kind = "must_call_once"
    state_limit = 256
    examples = (
        sg.Example(
            claim="the second call is a hit",
            params={"tool": "issue_refund"},
            trace=[{"call": "issue_refund"}, {"call": "issue_refund"}],
            hits=[1],
        ),
        sg.Example(
            claim="a session without the call is a hit at its end",
            params={"tool": "issue_refund"},
            trace=[{"call": "get_order"}, {"end": "closed"}],
            hits=["end"],
        ),
        sg.Example(
            claim="one call is right",
            params={"tool": "issue_refund"},
            trace=[{"call": "issue_refund"}, {"end": "closed"}],
            hits=[],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tool to be called."""
        return self.params.tool

    def on_tool_call(self, call: sg.ToolCall, state: MustCallOnceState) -> sg.Hit | None:
        """Count the attempt; fire at every one after the first."""
        self._remember(call, state)
        state.count += 1
        if state.count == 1:
            return None
        return sg.Hit(
            f"{call.tool} was called again: call {state.count}, and one is allowed",
            {"tool": call.tool, "count": state.count},
        )

    def on_decision(self, decision: sg.GateDecision, state: MustCallOnceState) -> None:
        """Remove an attempt that the gate holds or refuses; add it again when the gate allows it."""
        if decision.action == "allow":
            self._remember(decision, state)
        else:
            self._take_back(decision, state)

    def on_tool_result(self, result: sg.ToolResult, state: MustCallOnceState) -> None:
        """Record whether the attempt ran."""
        if result.status == "blocked":
            self._take_back(result, state)
        else:
            state.ran = True

    def on_ungated(self, event: sg.Event, state: MustCallOnceState) -> None:
        """Let calls outside the gate satisfy the end."""
        if state.ran:  # the end is satisfied, and out here nothing is counted
            return
        if type(event) is sg.ToolCall:  # see must_call_before
            self._remember(event, state)
        elif type(event) is sg.ToolResult:
            self.on_tool_result(event, state)
        elif type(event) is sg.GateDecision:
            self.on_decision(event, state)

    def on_session_end(self, _end: sg.SessionEnd, state: MustCallOnceState) -> sg.Hit | None:
        """Fire when no attempt ran and none may still run."""
        if state.ran or state.open:
            return None
        if state.count:
            return sg.Hit(
                f"{spoken(self.params.tool, 'what it asks for')} was tried, but every attempt was blocked",
                {"count": state.count},
            )
        return sg.Hit(f"{spoken(self.params.tool, 'what it asks for')} was never called", {"count": 0})

    def _remember(self, event: sg.ToolCall | sg.GateDecision, state: MustCallOnceState) -> None:
        attempt = event.attempt
        if state.ran or attempt in state.open:
            return
        if len(state.open) < _MOST_OPEN_ATTEMPTS:
            state.open = (*state.open, attempt)
        else:
            state.ran = True  # one of so many may have run, and each after the first was a hit

    def _take_back(self, event: sg.ToolResult | sg.GateDecision, state: MustCallOnceState) -> None:
        attempt = event.attempt
        if attempt in state.open:
            state.open = tuple([other for other in state.open if other != attempt])
