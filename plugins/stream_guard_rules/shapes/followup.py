"""How ``must_followup`` is written, and what it remembers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shapes.texts import Text

MOST_TURNS = 64  # every turn may trigger, so this bounds what is pending


class CallsTool(sg.Params):
    """A tool that must be called."""

    kind: Literal["tool_call"] = Field(description="the follow-up is a tool call")
    tool_name: sg.ToolPattern = Field(description="the tool to be called: a name, a glob, or a list of them")


class IncludesText(sg.Params):
    """A text that must be said."""

    kind: Literal["text_includes"] = Field(description="the follow-up is a text")
    text: Text = Field(description="the text to be said, letter for letter")


class MustFollowupParams(sg.Params):
    """Parameters of ``must_followup``."""

    trigger: sg.Condition = Field(
        description="conditions over a turn that ask for the follow-up; an empty list is every turn"
    )
    must: CallsTool | IncludesText = Field(
        discriminator="kind", description="the follow-up: {kind: tool_call, tool_name} or {kind: text_includes, text}"
    )
    within_turns: int = Field(default=1, ge=1, le=MOST_TURNS, description="in how many of the next turns it may come")
    within_seconds: sg.Duration | None = Field(
        default=None, description="how long it may take at most; an answer exactly that late is too late"
    )

    @field_validator("trigger")
    @classmethod
    def _is_about_turns(cls, trigger: sg.Condition) -> sg.Condition:
        for leaf in trigger.leaves:
            if leaf.path.text.split(".")[0] in {"tool", "user"}:
                raise PydanticCustomError(
                    "trigger",
                    'a trigger looks at a turn, where "{path}" never resolves; to look for a tool, '
                    "write response.content contains its name",
                    {"path": leaf.path.text},
                )
        return trigger


class Pending(sg.State):
    """A trigger that waits for its follow-up."""

    index: int
    left: int  # turns that may still answer
    deadline: float | None


class FollowupState(sg.State):
    """The triggers that wait, oldest first, and the turn whose calls are still coming in."""

    pending: list[Pending] = []
    open_turn: int = -1
