"""Rules about what a response says, and how it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.bounds import Text
from stream_guard_rules.evidence import cut


class RequiredStopReasonParams(sg.Params):
    """Parameters of ``required_stop_reason``."""

    allowed: list[str] = Field(min_length=1, description="the stop reasons a response may end with, as a list")


class RequiredStopReason(sg.Rule[RequiredStopReasonParams, sg.NoState]):
    """Every response must end with one of the ``allowed`` stop reasons; a missing one is not allowed."""

    kind = "required_stop_reason"
    examples = (
        sg.Example(
            claim="every response with another reason is a hit, not only the last",
            params={"allowed": ["end_turn"]},
            trace=[{"turn": "a", "stop": "max_tokens"}, {"turn": "b"}],
            hits=[0],
        ),
        sg.Example(
            claim="allowed reasons are silent",
            params={"allowed": ["end_turn", "tool_use"]},
            trace=[{"turn": None, "calls": ["get_order"]}, {"turn": "done"}],
            hits=[],
        ),
    )

    def __init__(self, params: RequiredStopReasonParams) -> None:
        super().__init__(params)
        self._allowed = frozenset(params.allowed)

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Check the stop reason."""
        reason = turn.response.get("stop_reason")
        if isinstance(reason, str):
            if reason in self._allowed:
                return None
            found = f'stop_reason "{cut(reason)}"'
        else:
            found = "a missing stop_reason" if reason is None else "a stop_reason that is no text"
        evidence = {"stop_reason": cut(reason) if isinstance(reason, str) else None, "allowed": self.params.allowed}
        return sg.Hit(f"{found} is not one of {', '.join(self.params.allowed)}", evidence)


class MustIncludeTextParams(sg.Params):
    """Parameters of ``must_include_text``."""

    text: Text = Field(description="the text to be found, letter for letter")


class MustIncludeTextState(sg.State):
    """Whether there was a response, and whether one had the text."""

    responded: bool = False
    found: bool = False


class MustIncludeText(sg.Rule[MustIncludeTextParams, MustIncludeTextState]):
    """At least one response must have ``text`` in it; a session without any response is not judged.

    With a ``when``, the text may stand in a response outside the gate.
    """

    kind = "must_include_text"
    fires_once = True
    state_limit = 16
    examples = (
        sg.Example(
            claim="a text in no response is a hit at the end",
            params={"text": "not financial advice"},
            trace=[{"turn": "Buy gold."}, {"turn": "Buy more."}, {"end": "closed"}],
            hits=["end"],
        ),
        sg.Example(
            claim="one response with the text is enough",
            params={"text": "not financial advice"},
            trace=[{"turn": "This is not financial advice."}, {"turn": "Buy gold."}, {"end": "closed"}],
            hits=[],
        ),
    )

    def __init__(self, params: MustIncludeTextParams) -> None:
        super().__init__(params)
        self._text = params.text

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, state: MustIncludeTextState) -> sg.Verdict:
        """Look for the text until it is found."""
        if state.found:
            return sg.SETTLED
        if not state.responded:
            state.responded = True
        if self._text not in turn.text:
            return None
        state.found = True
        return sg.SETTLED

    def on_ungated(self, event: sg.Event, state: MustIncludeTextState) -> sg.Verdict:
        """Look outside the gate too."""
        return self.on_turn(event, state) if type(event) is sg.Turn else None

    def on_session_end(self, _end: sg.SessionEnd, state: MustIncludeTextState) -> sg.Hit | None:
        """Fire when there were responses and none had the text."""
        if state.found or not state.responded:
            return None
        return sg.Hit(f'no response has the text "{cut(self.params.text)}"', {"text": cut(self.params.text)})


class MustIncludeTextEachParams(sg.Params):
    """Parameters of ``must_include_text_each``."""

    text: Text = Field(description="the text to be found, letter for letter")


class MustIncludeTextEach(sg.Rule[MustIncludeTextEachParams, sg.NoState]):
    """Every response must have ``text`` in it; one that only calls tools has no text."""

    kind = "must_include_text_each"
    examples = (
        sg.Example(
            claim="each response without the text is a hit",
            params={"text": "[source]"},
            trace=[{"turn": "42 [source]"}, {"turn": "43"}],
            hits=[1],
        ),
        sg.Example(
            claim="responses with the text are silent",
            params={"text": "[source]"},
            trace=[{"turn": "42 [source]"}],
            hits=[],
        ),
    )

    def __init__(self, params: MustIncludeTextEachParams) -> None:
        super().__init__(params)
        self._text = params.text

    def needs(self) -> frozenset[sg.Need]:
        """The responses' text."""
        return frozenset(("content",))

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | None:
        """Look for the text."""
        if self._text in turn.text:
            return None
        return sg.Hit(f'the response does not have the text "{cut(self.params.text)}"', {"text": cut(self.params.text)})


class ForbiddenTextParams(sg.Params):
    """Parameters of ``forbidden_text``."""

    text: Text | None = Field(default=None, description="the text that must not occur, letter for letter")
    pattern: sg.Regex | None = Field(default=None, description="or a regular expression (RE2) for it")
    where: Literal["response", "tool_args", "tool_result", "user"] = Field(
        default="response", description="where to look: in payloads, every string and every key is read"
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

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit:
        """Fire: the response has the text."""
        return self._hit([turn.text], "the response")

    def on_tool_call(self, call: sg.ToolCall, _state: sg.NoState) -> sg.Hit:
        """Fire: the arguments have the text."""
        return self._hit(_strings(call.args), f"the arguments of {call.tool}")

    def on_tool_result(self, result: sg.ToolResult, _state: sg.NoState) -> sg.Hit:
        """Fire: the result has the text."""
        return self._hit(_strings(result.output), f"the result of {result.tool}")

    def on_user_message(self, message: sg.UserMessage, _state: sg.NoState) -> sg.Hit:
        """Fire: the user's message has the text."""
        return self._hit([message.text], "the user's message")

    def _hit(self, strings: Iterable[str], said_in: str) -> sg.Hit:
        evidence = {"where": self.params.where, "wanted": self._wanted}
        # A pattern may match across two strings of a payload; then there is no one place to show.
        for text in strings:
            found = self._regex.search(text)
            if found is not None:
                evidence["found"] = cut(found)
                break
        # A pattern alone does not say what was there.
        what = (
            f'"{self._wanted}"' if self.params.pattern is None or "found" not in evidence else f'"{evidence["found"]}"'
        )
        return sg.Hit(f"{what} occurs in {said_in}", evidence)


_BY_PLACE: Final = {
    "response": "on_turn",
    "tool_args": "on_tool_call",
    "tool_result": "on_tool_result",
    "user": "on_user_message",
}


def _strings(payload: sg.Json) -> Iterator[str]:
    """Yield every string and key of a payload."""
    waiting = [payload]
    for item in waiting:  # grows while it is walked: no recursion, so depth cannot hurt
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
