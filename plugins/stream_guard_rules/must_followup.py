"""A turn that meets a trigger is followed by a call or a text, in time."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.events import awaits_calls
from stream_guard_rules.shared.evidence import cut, spoken
from stream_guard_rules.shared.params import SoughtText

MOST_TURNS = 64  # every turn may trigger, so this bounds what is pending


class CallsTool(sg.Params):
    """A tool that must be called."""

    kind: Literal["tool_call"] = Field(description="the follow-up is a tool call")
    tool_name: sg.ToolPattern = Field(description="the tool to be called: a name, a glob, or a list of them")


class IncludesText(sg.Params):
    """A text that must be said."""

    kind: Literal["text_includes"] = Field(description="the follow-up is a text")
    text: SoughtText = Field(description="the text to be said, letter for letter")


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


class MustFollowupState(sg.State):
    """The pending triggers, oldest first, and the turn whose announced calls are still coming in.

    ``quiet_turn`` is the last one where it neither lists calls nor announces any: those that come have no turn.
    """

    pending: list[Pending] = []
    open_turn: int = -1
    quiet_turn: int = -1


class MustFollowup(sg.Rule[MustFollowupParams, MustFollowupState]):
    """A turn that meets ``trigger`` must be followed by ``must`` within ``within_turns`` and ``within_seconds``.

    An attempt at the tool is a follow-up even when a gate blocks it. A call in the triggering turn itself is none; one
    that comes after a turn without calls stands for itself, and is a follow-up until the next turn.
    With a ``when``, turns outside the gate count as next turns too.
    """

    kind = "must_followup"
    state_limit = 2048
    examples = (
        sg.Example(
            claim="a quote that is not confirmed in the next turn is a hit there",
            params={
                "trigger": [{"path": "response.content", "op": "contains", "value": "quote_total"}],
                "must": {"kind": "tool_call", "tool_name": "confirm_with_user"},
            },
            trace=[{"turn": None, "calls": ["quote_total"]}, {"turn": "That is 20."}],
            hits=[1],
        ),
        sg.Example(
            claim="a trigger in the last turn is a hit at the end",
            params={
                "trigger": {"path": "stop_reason", "op": "==", "value": "max_tokens"},
                "must": {"kind": "text_includes", "text": "sorry"},
            },
            trace=[{"turn": "and then", "stop": "max_tokens"}, {"end": "closed"}],
            hits=["end"],
        ),
        sg.Example(
            claim="time is up even if the session falls silent",
            params={
                "trigger": [],
                "must": {"kind": "text_includes", "text": "done"},
                "within_turns": 5,
                "within_seconds": "2m",
            },
            trace=[{"turn": "one moment", "at": 0}, {"user": "hello?", "at": 300}],
            hits=["deadline"],
        ),
        sg.Example(
            claim="the follow-up in time is silent",
            params={
                "trigger": [{"path": "response.content", "op": "contains", "value": "quote_total"}],
                "must": {"kind": "tool_call", "tool_name": "confirm_with_user"},
            },
            trace=[{"turn": None, "calls": ["quote_total"]}, {"turn": None, "calls": ["confirm_with_user"]}],
            hits=[],
        ),
    )

    def __init__(self, params: MustFollowupParams) -> None:
        super().__init__(params)
        self._trigger = params.trigger
        self._lacks = [leaf.lacks for leaf in params.trigger.leaves if leaf.lacks is not None]
        # A text with a space in it names no tool: the calls of a response have no part in it.
        self._reads_blocks = any(
            leaf.path.text == "response.content" and " " not in str(leaf.value) for leaf in params.trigger.leaves
        )
        self._tool = params.must.tool_name if isinstance(params.must, CallsTool) else None
        self._text = params.must.text if isinstance(params.must, IncludesText) else ""
        self._wanted = (
            f"a call of {spoken(self._tool, 'what it asks for')}" if self._tool else f'the text "{cut(self._text)}"'
        )

    def tools(self) -> sg.ToolPattern:
        """The follow-up, when it is a tool."""
        return self._tool or sg.ToolPattern(())

    def needs(self) -> frozenset[sg.Need]:
        """What trigger and follow-up read, and a clock for ``within_seconds``."""
        reads = self._tool is None or any(leaf.path.reads_content for leaf in self.params.trigger.leaves)
        content: frozenset[sg.Need] = frozenset(("content",) if reads else ())
        return content | frozenset(("clock",) if self.params.within_seconds else ())

    def on_turn(self, turn: sg.Turn, state: MustFollowupState) -> sg.Hit | sg.Unsure | None:
        """Check the turn as a follow-up, then as a trigger."""
        hit = self._answer(turn, state) if state.pending else None
        if self._trigger.holds(turn):
            within = self.params.within_seconds
            deadline = turn.time + within if within is not None and turn.time is not None else None
            del state.pending[: 1 - MOST_TURNS]
            state.pending.append(Pending(turn.index, self.params.within_turns, deadline))
            self._note_calls(turn, state)
        elif hit is None:
            if self._reads_blocks and awaits_calls(turn):
                return sg.Unsure("unevaluable", "the calls of a response, which its trigger reads")
            for lacks in self._lacks:
                if lacks(turn):
                    return sg.Unsure("unevaluable", "a field that its trigger reads")
        return hit

    def rests_on_memory(self, _call: sg.ToolCall) -> bool:
        """No call breaks it."""
        return False

    def on_tool_call(self, call: sg.ToolCall, state: MustFollowupState) -> None:
        """Take a call as the follow-up that its turn announced without listing it, or that has no turn of its own."""
        if not state.pending or self._tool is None or not self._tool.matches(call.tool):
            return
        if call.index == state.open_turn:
            state.pending = [trigger for trigger in state.pending if trigger.index >= state.open_turn]
        elif call.index == state.quiet_turn:
            state.pending = []

    def on_ungated(self, event: sg.Event, state: MustFollowupState) -> sg.Hit | None:
        """Check turns and calls outside the gate as a follow-up."""
        if isinstance(event, sg.Turn):
            return self._answer(event, state) if state.pending else None
        if isinstance(event, sg.ToolCall):
            self.on_tool_call(event, state)
        return None

    def deadline(self, state: MustFollowupState) -> float | None:
        """The earliest deadline of a pending trigger."""
        return min((trigger.deadline for trigger in state.pending if trigger.deadline is not None), default=None)

    def on_deadline(self, time: float, state: MustFollowupState) -> sg.Hit | None:
        """Fire for the triggers whose time is up; the hit points at the first of them."""
        due = [trigger for trigger in state.pending if trigger.deadline is not None and trigger.deadline <= time]
        state.pending = [trigger for trigger in state.pending if trigger not in due]
        return self._hit(due, f"{self._wanted} did not follow within {self.params.within_seconds:g} s")

    def on_session_end(self, _end: sg.SessionEnd, state: MustFollowupState) -> sg.Hit | None:
        """Fire once for all pending triggers, at the first one or at the turn whose announced calls never came."""
        announced = any(trigger.left == 0 for trigger in state.pending)
        place = state.open_turn if announced else None
        return self._hit(state.pending, f"{self._wanted} did not follow before the end", place)

    def _answer(self, turn: sg.Turn, state: MustFollowupState) -> sg.Hit | None:
        """Check the turn against the pending triggers; fire for those that have no turn left."""
        detail = f"{self._wanted} did not follow"
        self._note_calls(turn, state)
        # The calls that the turn before announced never came: it has failed, and is the place of the hit.
        overdue = [trigger for trigger in state.pending if trigger.left == 0]
        place = state.open_turn if overdue else turn.index
        state.open_turn = -1
        if self._is_followup(turn):
            state.pending = []
            return self._hit(overdue, detail, place)
        waiting = [trigger for trigger in state.pending if trigger.left > 0]
        for trigger in waiting:
            trigger.left -= 1
        if self._tool is not None and awaits_calls(turn):
            state.open_turn = turn.index
        else:
            overdue += [trigger for trigger in waiting if trigger.left == 0]
            waiting = [trigger for trigger in waiting if trigger.left > 0]
        state.pending = waiting
        return self._hit(overdue, detail, place)

    def _note_calls(self, turn: sg.Turn, state: MustFollowupState) -> None:
        state.quiet_turn = -1 if turn.tools or awaits_calls(turn) else turn.index

    def _is_followup(self, turn: sg.Turn) -> bool:
        if self._tool is None:
            return self._text in turn.text
        return any(map(self._tool.matches, turn.tools))

    def _hit(self, triggers: list[Pending], detail: str, index: int | None = None) -> sg.Hit | None:
        """Return one hit for all triggers that found no follow-up."""
        if not triggers:
            return None
        turns = [trigger.index for trigger in triggers]
        evidence = {"trigger_turns": turns, "wanted": self._wanted}
        return sg.Hit(f"after turn {turns[0]}, {detail}", evidence, triggers[0].index if index is None else index)
