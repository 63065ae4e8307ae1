"""An agent that is at work does not fall silent."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.events import has_no_turn


class MustNotStallParams(sg.Params):
    """Parameters of ``must_not_stall``."""

    within_seconds: sg.Duration = Field(description="how long there may be no turn, call or result; the clock tells")


class MustNotStallState(sg.State):
    """The time of the latest activity; none while the agent has no work. Whether calls are told and no responses."""

    last: float | None = None
    turnless: bool = False


class MustNotStall(sg.Rule[MustNotStallParams, MustNotStallState]):
    """An agent that is at work must not fall silent.

    It is at work from a user's message, a turn, a call or a result until a turn that ends for good: one whose stop
    reason is none of those that ask for tools, or that has a text, no calls and tells no stop reason. In a session that
    is told by its calls alone, only the time of an open call is judged. With ``scope: run``, each run is watched by
    itself.
    """

    kind = "must_not_stall"
    state_limit = 16
    examples = (
        sg.Example(
            claim="silence after a call is a hit when the time is up",
            params={"within_seconds": 120},
            trace=[{"call": "look", "at": 0}, {"user": "hello?", "at": 300}, {"turn": "Yes.", "at": 301}],
            hits=["deadline"],
        ),
        sg.Example(
            claim="an agent that has answered may be silent",
            params={"within_seconds": 120},
            trace=[
                {"call": "look", "id": "a", "at": 0},
                {"result": "look", "id": "a", "at": 50},
                {"turn": "Done.", "at": 100},
                {"user": "thanks", "at": 900},
                {"turn": "Bye.", "at": 901},
            ],
            hits=[],
        ),
    )

    def needs(self) -> frozenset[sg.Need]:
        """A clock."""
        return frozenset(("clock",))

    def on_user_message(self, message: sg.UserMessage, state: MustNotStallState) -> None:
        """Note that the agent has work; a response is waited for where responses are told."""
        state.last = None if state.turnless else message.time

    def on_turn(self, turn: sg.Turn, state: MustNotStallState) -> None:
        """Note whether the agent still works."""
        reason = turn.response.get("stop_reason")
        is_last = reason not in ("tool_use", "tool_calls", "pause_turn") and not turn.tools
        done = is_last and (reason is not None or bool(turn.text.strip()))
        state.last, state.turnless = None if done else turn.time, False

    def rests_on_memory(self, _call: sg.ToolCall) -> bool:
        """No call breaks it."""
        return False

    def on_tool_call(self, call: sg.ToolCall, state: MustNotStallState) -> None:
        """Note the call."""
        state.last, state.turnless = call.time, has_no_turn(call)

    def on_tool_result(self, result: sg.ToolResult, state: MustNotStallState) -> None:
        """Note the result."""
        state.last = None if state.turnless else result.time

    def deadline(self, state: MustNotStallState) -> float | None:
        """The time at which the silence is too long."""
        return None if state.last is None else state.last + self.params.within_seconds

    def on_deadline(self, _time: float, state: MustNotStallState) -> sg.Hit | None:
        """Fire once for one silence."""
        state.last = None
        seconds = self.params.within_seconds
        return sg.Hit(f"nothing came for {seconds:g} seconds", {"seconds": seconds})
