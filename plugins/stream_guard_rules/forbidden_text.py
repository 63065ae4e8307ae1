"""A text does not occur in responses, calls, results or user messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.evidence import cut
from stream_guard_rules.shared.params import SoughtText

_BY_PLACE: Final = {
    "response": "on_turn",
    "tool_args": "on_tool_call",
    "tool_result": "on_tool_result",
    "user": "on_user_message",
}


class ForbiddenTextParams(sg.Params):
    """Parameters of ``forbidden_text``."""

    text: SoughtText | None = Field(default=None, description="the text that must not occur, letter for letter")
    pattern: sg.Regex | None = Field(default=None, description="or a regular expression (RE2) for it")
    where: Literal["response", "tool_args", "tool_result", "user"] = Field(
        default="response", description="where to look: in payloads, every string and every key is read by itself"
    )
    tool: sg.ToolPattern | None = Field(
        default=None, description="look only into arguments or results of these tools: a name, a glob, or a list"
    )

    @model_validator(mode="after")
    def _says_what(self) -> ForbiddenTextParams:
        if (self.text is None) == (self.pattern is None):
            raise PydanticCustomError("forbidden_text", 'write either "text" or "pattern", and only one of them')
        if self.tool is not None and not self.where.startswith("tool_"):
            raise PydanticCustomError("forbidden_text", '"tool" goes with "where": tool_args or tool_result')
        return self


class ForbiddenText(sg.Rule[ForbiddenTextParams, sg.NoState]):
    """A text must not occur in any response, or in any tool call, tool result or user message."""

    kind = "forbidden_text"
    examples = (
        sg.Example(
            claim="each response with the text is a hit",
            params={"text": "guaranteed"},
            trace=[{"turn": "It is guaranteed."}, {"turn": "It is likely."}],
            hits=[0],
        ),
        sg.Example(
            claim="a pattern looks into the arguments of calls",
            params={"pattern": r"(?i)drop\s+table", "where": "tool_args"},
            trace=[{"call": "run_sql", "args": {"query": "DROP  TABLE users"}}],
            hits=[0],
        ),
        sg.Example(
            claim="with a tool, other tools may say it",
            params={"text": "sudo", "where": "tool_args", "tool": "shell|bash"},
            trace=[{"call": "bash", "args": {"command": "sudo ls"}}, {"call": "write_file", "args": {"text": "sudo"}}],
            hits=[0],
        ),
        sg.Example(
            claim="letters count: another case is another text",
            params={"text": "guaranteed"},
            trace=[{"turn": "Guaranteed."}],
            hits=[],
        ),
    )

    def __init__(self, params: ForbiddenTextParams) -> None:
        super().__init__(params)
        self._regex = params.pattern or sg.Regex(sg.literal(params.text or ""))
        self._wanted = cut(params.text or (params.pattern.pattern if params.pattern else ""))

    def handlers(self) -> tuple[str, ...]:
        """The handler of the place it looks into; other events cost nothing."""
        return (_BY_PLACE[self.params.where],)

    def tools(self) -> sg.ToolPattern | None:
        """The tools whose arguments or results it looks into."""
        return self.params.tool

    def texts(self) -> Sequence[sg.TextPattern]:
        """The text itself: the engine searches for all texts together."""
        return (sg.TextPattern(self.params.where, self._regex.pattern),)

    def needs(self) -> frozenset[sg.Need]:
        """The content of the place it looks into."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Fire: the response has the text."""
        return self._hit([turn.text], "the response")

    def on_tool_call(self, call: sg.ToolCall, _state: sg.NoState) -> sg.Hit | None:
        """Fire: the arguments have the text."""
        return self._hit(sg.payload_texts(call.args), f"the arguments of {call.tool}")

    def on_tool_result(self, result: sg.ToolResult, _state: sg.NoState) -> sg.Hit | None:
        """Fire: the result has the text."""
        return self._hit(sg.payload_texts(result.output), f"the result of {result.tool}")

    def on_user_message(self, message: sg.UserMessage, _state: sg.NoState) -> sg.Hit | None:
        """Fire: the user's message has the text."""
        return self._hit([message.text], "the user's message")

    def _hit(self, strings: Iterable[str], said_in: str) -> sg.Hit | None:
        """Fire at the first string that has it; each is read by itself."""
        found = next((found for text in strings if (found := self._regex.search(text)) is not None), None)
        if found is None:
            return None
        evidence = {"where": self.params.where, "wanted": self._wanted, "found": cut(found)}
        # What a disguise hid is named as the rule has it; a pattern says nothing to a reader.
        what = evidence["found"] if self.params.pattern is not None else self._wanted
        return sg.Hit(f'"{what}" occurs in {said_in}', evidence)
