"""The user says yes before a tool is called."""

from __future__ import annotations

from typing import Final

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.events import NO_TURNS, remember_ungated
from stream_guard_rules.shared.json_values import strings_in

_YES: Final = (
    r"yes|yep|yeah|yup|sure|ok|okay|confirm|confirmed|confirming|approve|approved|agree|agreed|go ahead|proceed|"
    r"please do|do it|absolutely|definitely|of course|certainly|correct|sounds good|that works|perfect|great"
)

# Bounded and linear: what a user writes is not to be trusted either.
_STARTS_YES: Final = sg.Regex(
    rf"(?i)^[\s\W]*(?:(?:great|thanks|thank you|alright|right|well|oh|i)[\s,.!]+)?(?:{_YES})\b"
)
_STARTS_NO: Final = sg.Regex(
    r"(?i)^[\s\W]*(?:no|nope|nah|not|don.?t|do not|never|stop|wait|hold on|cancel that|actually,? no)\b"
)
_SAYS_YES: Final = sg.Regex(rf"(?i)\b(?:{_YES})\b")
_SAYS_NO: Final = sg.Regex(r"(?i)\b(?:no|nope|not|don.?t|never|stop|wait|won'?t|rather)\b|n['\x{2019}]t\b|\?")


def agrees(text: str) -> bool:
    """Whether a user's message says yes: it starts with a yes, or has one and neither a no nor a question."""
    if _STARTS_NO.search(text) is not None:
        return False
    if _STARTS_YES.search(text) is not None:
        return True
    return _SAYS_YES.search(text) is not None and _SAYS_NO.search(text) is None


class MustConfirmBeforeParams(sg.Params):
    """Parameters of ``must_confirm_before``."""

    tool: sg.ToolPattern | None = Field(
        default=None, description="the tools that need a yes: a name, a glob, or a list of them"
    )
    args_pattern: sg.Regex | None = Field(
        default=None, description="calls of any tool need a yes when this regular expression occurs in the arguments"
    )
    asks: sg.ToolPattern | None = Field(
        default=None, description="tools that ask the person themselves: an ok result of one is a yes"
    )
    covers: int = Field(default=1, ge=1, le=1000, description="calls that one yes is good for")

    @model_validator(mode="after")
    def _says_what(self) -> MustConfirmBeforeParams:
        if self.tool is None and self.args_pattern is None:
            raise PydanticCustomError("must_confirm_before", 'write "tool", "args_pattern" or both')
        return self


class MustConfirmBeforeState(sg.State):
    """Whether the agent spoke last, and how many calls the last yes still covers; whether responses are told."""

    spoke: bool = False
    heard: bool = False  # the user's words of this exchange came as an event; the request only repeats them
    left: int = 0
    used: list[int] = []
    doubtful: bool = False  # the yes came before any response was told
    turns: bool = False


_NO_ANSWER: Final = sg.Unsure("unevaluable", "the person's answer in the output of the tool that asks")
_NO_ARGS: Final = sg.Unsure("unevaluable", "arguments")


class MustConfirmBefore(sg.Rule[MustConfirmBeforeParams, MustConfirmBeforeState]):
    """The user must have said yes to the agent's last message before ``tool`` is called.

    A request is no confirmation: the yes has to answer something the agent said. One yes covers ``covers`` calls,
    and a call that did not succeed does not use it up. Any other message of the user revokes it. In a session that is
    told by its calls alone nobody knows what a yes answers: a call that it would cover could not be judged.
    """

    kind = "must_confirm_before"
    state_limit = 10240
    examples = (
        sg.Example(
            claim="a request is no confirmation",
            params={"tool": "delete_rows"},
            trace=[{"user": "delete rows 1 to 5"}, {"call": "delete_rows"}],
            hits=[1],
        ),
        sg.Example(
            claim="one yes covers one call",
            params={"tool": "delete_rows"},
            trace=[{"turn": "Delete row 1?"}, {"user": "yes"}, {"call": "delete_rows"}, {"call": "delete_rows"}],
            hits=[3],
        ),
        sg.Example(
            claim="a no is no confirmation",
            params={"args_pattern": "(?i)drop table"},
            trace=[{"turn": "Drop it?"}, {"user": "no, do not"}, {"call": "run_sql", "args": {"q": "DROP TABLE t"}}],
            hits=[2],
        ),
        sg.Example(
            claim="a call after a yes is fine",
            params={"tool": "delete_*"},
            trace=[{"turn": "Shall I delete them?"}, {"user": "Yes, please."}, {"call": "delete_rows"}],
            hits=[],
        ),
        sg.Example(
            claim="a tool that asks the person brings the yes",
            params={"tool": "delete_rows", "asks": "ask_user"},
            trace=[
                {"call": "ask_user", "id": "a"},
                {"result": "ask_user", "id": "a", "output": "yes"},
                {"call": "delete_rows"},
            ],
            hits=[],
        ),
    )

    def __init__(self, params: MustConfirmBeforeParams) -> None:
        super().__init__(params)
        self._needs_confirmation = params.tool.matches if params.tool is not None else lambda _tool: False
        self._asks_user = params.asks.matches if params.asks is not None else lambda _tool: False

    def tools(self) -> sg.ToolPattern | None:
        """The tools the rule names; all tools where arguments decide."""
        if self.params.args_pattern is not None or self.params.tool is None:
            return None
        asks = self.params.asks.expanded if self.params.asks is not None else ()
        return sg.ToolPattern([*self.params.tool.expanded, *asks])

    def needs(self) -> frozenset[sg.Need]:
        """The texts of messages and responses."""
        return frozenset(("content",))

    def on_user_message(self, message: sg.UserMessage, state: MustConfirmBeforeState) -> None:
        """Take the message as a yes or as anything else."""
        self._take_answer(message.text, state)
        state.heard = True

    def on_turn(self, turn: sg.Turn, state: MustConfirmBeforeState) -> None:
        """Read the user's message from the request where no event brought it, and note that the agent spoke."""
        text = None if state.heard else _last_user_text(turn)
        if text is not None:
            self._take_answer(text, state)
        if state.doubtful and not state.turns:  # it was a request, before the first response
            state.doubtful, state.left = False, 0
        state.heard, state.turns = False, True
        if turn.text.strip():
            state.spoke = True

    def rests_on_memory(self, _call: sg.ToolCall) -> bool:
        """Without a memory of a yes, it fires."""
        return False

    def on_tool_call(self, call: sg.ToolCall, state: MustConfirmBeforeState) -> sg.Hit | sg.Unsure | None:
        """Use up one yes, or fire."""
        if not self._needs_yes(call):
            return _NO_ARGS if call.args is None and self.params.args_pattern is not None else None
        if state.left > 0:
            state.left -= 1
            state.used = [*state.used, call.attempt]  # as many as are covered, at most
            return NO_TURNS if state.doubtful else None
        advice = "say to the user what will be done, and wait for a yes"
        return sg.Hit(f"{call.tool} was called without the user's yes", {"tool": call.tool}, advice=advice)

    def on_tool_result(self, result: sg.ToolResult, state: MustConfirmBeforeState) -> sg.Unsure | None:
        """Restore the yes of a call that did not succeed; take a yes from a tool that asks the person."""
        if result.attempt in state.used and result.status != "ok":
            state.left += 1
            state.used = [attempt for attempt in state.used if attempt != result.attempt]
        elif result.status == "ok" and self._asks_user(result.tool):
            if not _is_refusal(result.output):
                state.left, state.doubtful = self.params.covers, False
            return _NO_ANSWER if result.output is None else None
        return None

    def on_ungated(self, event: sg.Event, state: MustConfirmBeforeState) -> None:
        """Read messages and turns outside the gate too; only calls inside the gate need a yes."""
        remember_ungated(self, event, state)

    def _take_answer(self, text: str, state: MustConfirmBeforeState) -> None:
        state.doubtful = not (state.turns or state.spoke)
        state.left = self.params.covers if (state.spoke or state.doubtful) and agrees(text) else 0
        state.spoke, state.used = False, []

    def _needs_yes(self, call: sg.ToolCall) -> bool:
        if self._needs_confirmation(call.tool):
            return True
        pattern = self.params.args_pattern
        return pattern is not None and any(pattern.search(text) is not None for text in strings_in(call.args))


def _is_refusal(output: sg.Json) -> bool:
    return output is False or any(_STARTS_NO.search(text) is not None for text in strings_in(output))


def _last_user_text(turn: sg.Turn) -> str | None:
    """Return the user's last message, when the request ends with it."""
    messages = turn.request.get("messages") if turn.request is not None else None
    last = messages[-1] if isinstance(messages, list) and messages else None
    if not isinstance(last, dict) or last.get("role") != "user":
        return None
    content = last.get("content")
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
    return "\n".join(texts) if texts else None
