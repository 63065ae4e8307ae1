"""A tool is never called."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg


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
        """The forbidden tools."""
        return self.params.tool

    def on_tool_call(self, call: sg.ToolCall, _state: sg.NoState) -> sg.Hit:
        """Fire at every attempt."""
        return sg.Hit(f"{call.tool} was called", {"tool": call.tool})
