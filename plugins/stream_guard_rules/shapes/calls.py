"""How rules about which tools are called are written, and what they remember."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg


class NoCallParams(sg.Params):
    """Parameters of ``no_call``."""

    tool: sg.ToolPattern = Field(description="the tool that must not be called: a name, a glob, or a list of them")


class MustCallOnlyParams(sg.Params):
    """Parameters of ``must_call_only``."""

    tool: sg.ToolPattern = Field(description="the tools that may be called: a name, a glob, or a list of them")


class MustCallParams(sg.Params):
    """Parameters of ``must_call``."""

    tool: sg.ToolPattern = Field(description="the tool to be called: a name, a glob, or a list of which one is enough")


class CalledState(sg.State):
    """Whether one of the attempts may have run."""

    ran: bool = False
    open: list[int] = []


class MustCallOnceParams(sg.Params):
    """Parameters of ``must_call_once``."""

    tool: sg.ToolPattern = Field(description="the tool to be called once: a name, a glob, or a list of them")


class OnceState(sg.State):
    """How often it was tried, and whether one of the attempts may have run."""

    count: int = 0
    ran: bool = False
    open: list[int] = []
