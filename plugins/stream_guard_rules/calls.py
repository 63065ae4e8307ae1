"""Rules about which tools are called: never, only these, at least once, exactly once."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg

_REMEMBERED = 8  # attempts of which it is not known yet whether they ran


class NoCallParams(sg.Params):
    """Parameters of ``no_call``."""

    tool: sg.ToolPattern = Field(description="the tool that must not be called: a name, a glob, or a list of them")


class NoCall(sg.Rule[NoCallParams, sg.NoState]):
    """``tool`` must never be called; every attempt is a hit."""

    kind = "no_call"
    examples = (
        sg.Example(
            claim="each call is a hit",
            params={"tool": "delete_*"},
            trace=[{"call": "delete_user"}, {"call": "get_user"}, {"call": "delete_order"}],
            hits=[0, 2],
        ),
        sg.Example(claim="other tools are free", params={"tool": "delete_user"}, trace=[{"call": "get_user"}], hits=[]),
    )

    def tools(self) -> sg.ToolPattern:
        """Only the forbidden ones."""
        return self.params.tool

    def on_tool_call(self, call: sg.ToolCall, _state: sg.NoState) -> sg.Hit:
        """Say no to every attempt: that the tool is named is all there is to know."""
        return sg.Hit(f"{call.tool} was called", {"tool": call.tool})


class MustCallOnlyParams(sg.Params):
    """Parameters of ``must_call_only``."""

    tool: sg.ToolPattern = Field(description="the tools that may be called: a name, a glob, or a list of them")


class MustCallOnly(sg.Rule[MustCallOnlyParams, sg.NoState]):
    """No tool but ``tool`` may be called; every attempt at another one is a hit."""

    kind = "must_call_only"
    examples = (
        sg.Example(
            claim="a call of another tool is a hit",
            params={"tool": ["search_docs", "read_*"]},
            trace=[{"call": "read_file"}, {"call": "write_file"}],
            hits=[1],
        ),
        sg.Example(
            claim="the tools that are named are free",
            params={"tool": ["search_docs", "read_*"]},
            trace=[{"call": "search_docs"}],
            hits=[],
        ),
    )

    def on_tool_call(self, call: sg.ToolCall, _state: sg.NoState) -> sg.Hit | None:
        """Look for the tool among the allowed ones."""
        if self.params.tool.matches(call.tool):
            return None
        return sg.Hit(f"{call.tool} was called, which is not {self.params.tool}", {"tool": call.tool})


class MustCallParams(sg.Params):
    """Parameters of ``must_call``."""

    tool: sg.ToolPattern = Field(description="the tool to be called: a name, a glob, or a list of which one is enough")


class MustCallState(sg.State):
    """Whether one of the attempts may have run."""

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
        """Only the one to be called."""
        return self.params.tool

    def on_tool_call(self, call: sg.ToolCall, state: MustCallState) -> None:
        """Take the attempt for a call until something stops it."""
        if not state.ran and call.attempt not in state.open:
            state.open = [*state.open[1 - _REMEMBERED :], call.attempt]

    def on_decision(self, decision: sg.GateDecision, state: MustCallState) -> None:
        """Take back an attempt that the gate holds or refused, until it allows it."""
        if decision.action != "allow":
            state.open = [attempt for attempt in state.open if attempt != decision.attempt]
        elif not state.ran and decision.attempt not in state.open:
            state.open = [*state.open[1 - _REMEMBERED :], decision.attempt]

    def on_tool_result(self, result: sg.ToolResult, state: MustCallState) -> None:
        """Settle whether the attempt ran."""
        if result.status == "blocked":
            state.open = [attempt for attempt in state.open if attempt != result.attempt]
        else:
            state.ran, state.open = True, []

    def on_ungated(self, event: sg.Event, state: MustCallState) -> None:
        """Let a call outside the gate satisfy."""
        if isinstance(event, sg.ToolCall):
            self.on_tool_call(event, state)
        elif isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)
        elif isinstance(event, sg.GateDecision):
            self.on_decision(event, state)

    def on_session_end(self, _end: sg.SessionEnd, state: MustCallState) -> sg.Hit | None:
        """Fire when nothing ran, nor may have."""
        if state.ran or state.open:
            return None
        return sg.Hit(f"{self.params.tool} was never called", {"tool": str(self.params.tool)})


class MustCallOnceParams(sg.Params):
    """Parameters of ``must_call_once``."""

    tool: sg.ToolPattern = Field(description="the tool to be called once: a name, a glob, or a list of them")


class MustCallOnceState(sg.State):
    """How often it was tried, and whether one of the attempts may have run."""

    count: int = 0
    ran: bool = False
    open: list[int] = []


class MustCallOnce(sg.Rule[MustCallOnceParams, MustCallOnceState]):
    """``tool`` must be called exactly once.

    The second attempt and each later one are hits, blocked or not: a cap sees every attempt. At the end,
    an attempt that was blocked is no call. With a ``when``, a call outside the gate is not counted, but it
    is enough for the end.
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
        """Only the one to be called."""
        return self.params.tool

    def on_tool_call(self, call: sg.ToolCall, state: MustCallOnceState) -> sg.Hit | None:
        """Count the attempt; more than one is wrong the moment it is tried."""
        self._remember(call, state)
        state.count += 1
        if state.count == 1:
            return None
        return sg.Hit(f"{call.tool} was called again", {"tool": call.tool, "count": state.count})

    def on_decision(self, decision: sg.GateDecision, state: MustCallOnceState) -> None:
        """Take back an attempt that the gate holds or refused, until it allows it."""
        if decision.action == "allow":
            self._remember(decision, state)
        else:
            self._take_back(decision, state)

    def on_tool_result(self, result: sg.ToolResult, state: MustCallOnceState) -> None:
        """Settle whether the attempt ran."""
        if result.status == "blocked":
            self._take_back(result, state)
        else:
            state.ran = True

    def on_ungated(self, event: sg.Event, state: MustCallOnceState) -> None:
        """Let a call outside the gate satisfy the end."""
        if isinstance(event, sg.ToolCall):
            self._remember(event, state)
        elif isinstance(event, sg.ToolResult):
            self.on_tool_result(event, state)
        elif isinstance(event, sg.GateDecision):
            self.on_decision(event, state)

    def on_session_end(self, _end: sg.SessionEnd, state: MustCallOnceState) -> sg.Hit | None:
        """Fire when nothing ran, nor may have."""
        if state.ran or state.open:
            return None
        if state.count:
            return sg.Hit(f"{self.params.tool} was tried, but every attempt was blocked", {"count": state.count})
        return sg.Hit(f"{self.params.tool} was never called", {"count": 0})

    def _remember(self, event: sg.ToolCall | sg.GateDecision, state: MustCallOnceState) -> None:
        attempt = event.attempt
        if not state.ran and attempt not in state.open:
            state.open = [*state.open[1 - _REMEMBERED :], attempt]

    def _take_back(self, event: sg.ToolResult | sg.GateDecision, state: MustCallOnceState) -> None:
        attempt = event.attempt
        if attempt in state.open:
            state.open.remove(attempt)
