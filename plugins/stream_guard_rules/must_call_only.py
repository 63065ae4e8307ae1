"""No tool is called but those that are named."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import spoken


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
        """Fire unless the tool is allowed."""
        if self.params.tool.matches(call.tool):
            return None
        advice = f"call only {self.params.tool}"
        return sg.Hit(
            f"{call.tool} was called, which is not {spoken(self.params.tool, 'among those allowed')}",
            {"tool": call.tool},
            advice=advice,
        )
