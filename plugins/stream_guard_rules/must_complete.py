"""Every user message gets a response, and no response fails."""

from __future__ import annotations

import stream_guard as sg
from stream_guard_rules.shared.events import NO_TURNS, has_no_turn
from stream_guard_rules.shared.evidence import as_evidence


def failure_of(turn: sg.Turn) -> str:
    """Return why the turn failed, or an empty text."""
    error = turn.response.get("error")
    if error:
        return as_evidence(error)
    return "the model or the agent failed" if turn.response.get("stop_reason") == "error" else ""


class MustCompleteState(sg.State):
    """Whether the last user message has no answer yet, and whether calls are told and no responses."""

    waiting: bool = False
    turnless: bool = False


class MustComplete(sg.Rule[sg.Params, MustCompleteState]):
    """Every response must come without an error, and every user message must get a response.

    A response has failed when its ``stop_reason`` is ``error`` or it carries an ``error``. A session that is told by
    its calls alone could not be judged.
    """

    kind = "must_complete"
    state_limit = 16
    examples = (
        sg.Example(
            claim="a response that failed is a hit",
            params={},
            trace=[{"user": "hello"}, {"turn": None, "response": {"error": "HTTP 503"}, "stop": "error"}],
            hits=[1],
        ),
        sg.Example(
            claim="a message that nobody answers is a hit at the end",
            params={},
            trace=[{"turn": "hello"}, {"user": "are you there?"}, {"end": "closed"}],
            hits=["end"],
        ),
        sg.Example(
            claim="an answer is silent, an empty one too",
            params={},
            trace=[{"user": "hello"}, {"turn": ""}, {"end": "closed"}],
            hits=[],
        ),
    )

    def on_user_message(self, _message: sg.UserMessage, state: MustCompleteState) -> None:
        """Wait for the answer."""
        state.waiting = True

    def on_turn(self, turn: sg.Turn, state: MustCompleteState) -> sg.Hit | sg.Unsure | None:
        """Look for an error; a turn that tells neither content nor stop reason may have failed."""
        state.waiting = state.turnless = False
        why = failure_of(turn)
        if why:
            return sg.Hit(f"the response failed: {why}", {"error": why})
        has_content = turn.captured and bool(turn.response.get("content"))
        unknown = not has_content and turn.response.get("stop_reason") is None
        return sg.Unsure("unevaluable", "content and a stop_reason") if unknown else None

    def on_tool_result(self, result: sg.ToolResult, state: MustCompleteState) -> sg.Unsure | None:
        """Note that responses are not told."""
        state.turnless = has_no_turn(result)
        return NO_TURNS if state.turnless else None

    def on_tool_call(self, call: sg.ToolCall, state: MustCompleteState) -> None:
        """Note a call before any response; its turn may still come."""
        state.turnless = has_no_turn(call)

    def on_ungated(self, event: sg.Event, state: MustCompleteState) -> None:
        """Let a response outside the gate be the answer."""
        if isinstance(event, sg.ToolCall | sg.ToolResult):
            state.turnless = has_no_turn(event)
        else:
            state.waiting = isinstance(event, sg.UserMessage)

    def on_session_end(self, _end: sg.SessionEnd, state: MustCompleteState) -> sg.Hit | None:
        """Fire when nobody answered the last message."""
        is_hit = state.waiting and not state.turnless
        return sg.Hit("the session ended before the user had an answer") if is_hit else None
