"""A tool is called in time after another one."""

from __future__ import annotations

from typing import Final

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.evidence import spoken
from stream_guard_rules.shared.json_values import short_digest
from stream_guard_rules.shared.lost_memory import FORGOTTEN_LATER
from stream_guard_rules.shared.params import ArgumentPath

_MOST_PENDING: Final = 64


class Awaited(sg.State):
    """One call that waits for what must follow."""

    key: str
    deadline: float
    index: int


class MustCallAfterParams(sg.Params):
    """Parameters of ``must_call_after``."""

    first: sg.ToolPattern = Field(description="the tools after which something must follow: a name, a glob, or a list")
    then: sg.ToolPattern = Field(description="the tools of which one must follow")
    within_seconds: sg.Duration = Field(description="how long it may take; exactly so late is too late")
    same_arg: ArgumentPath | None = Field(
        default=None, description="the argument that must be the same in both calls, a dotted path"
    )


class MustCallAfterState(sg.State):
    """The calls that wait."""

    pending: list[Awaited] = []


class MustCallAfter(sg.Rule[MustCallAfterParams, MustCallAfterState]):
    """After ``first``, ``then`` must be called within the time; the clock tells, however silent the session is.

    An attempt is enough. 64 calls that wait are remembered; with more, it could not judge, and that is counted.
    """

    kind = "must_call_after"
    state_limit = 4096
    examples = (
        sg.Example(
            claim="a quote that nobody confirms is a hit when the time is up",
            params={"first": "create_quote", "then": "confirm", "within_seconds": 60, "same_arg": "quote_id"},
            trace=[
                {"call": "create_quote", "args": {"quote_id": 1}, "at": 0},
                {"call": "confirm", "args": {"quote_id": 2}, "at": 10},
                {"user": "hello", "at": 200},
            ],
            hits=["deadline"],
        ),
        sg.Example(
            claim="in time is fine",
            params={"first": "create_quote", "then": "confirm", "within_seconds": 60},
            trace=[{"call": "create_quote", "at": 0}, {"call": "confirm", "at": 59}, {"user": "hello", "at": 200}],
            hits=[],
        ),
    )

    def __init__(self, params: MustCallAfterParams) -> None:
        super().__init__(params)
        self._argument = sg.Path(f"tool.args.{params.same_arg}") if params.same_arg else None

    def tools(self) -> sg.ToolPattern:
        """The tools on both sides."""
        return sg.ToolPattern([*self.params.first.expanded, *self.params.then.expanded])

    def needs(self) -> frozenset[sg.Need]:
        """A clock, and arguments for ``same_arg``."""
        content: frozenset[sg.Need] = frozenset(("content",) if self._argument is not None else ())
        return content | frozenset(("clock",))

    def rests_on_memory(self, _call: sg.ToolCall) -> bool:
        """No call breaks it."""
        return False

    def on_tool_call(self, call: sg.ToolCall, state: MustCallAfterState) -> sg.Verdict:
        """Take what waited off the list, or put the call on it."""
        if self._argument is not None and call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        key = self._key(call)
        if self.params.then.matches(call.tool):
            state.pending = [one for one in state.pending if one.key != key]
        if self.params.first.matches(call.tool) and key is not None and call.time is not None:
            awaited = Awaited(key, call.time + self.params.within_seconds, call.index)
            is_full = len(state.pending) >= _MOST_PENDING
            state.pending = [*state.pending[1 - _MOST_PENDING :], awaited]
            return FORGOTTEN_LATER if is_full else None
        return None

    def on_ungated(self, event: sg.Event, state: MustCallAfterState) -> None:
        """Take what waited off the list outside the gate too."""
        if isinstance(event, sg.ToolCall) and self.params.then.matches(event.tool):
            state.pending = [one for one in state.pending if one.key != self._key(event)]

    def deadline(self, state: MustCallAfterState) -> float | None:
        """The earliest time that runs out."""
        return min((one.deadline for one in state.pending), default=None)

    def on_deadline(self, time: float, state: MustCallAfterState) -> sg.Hit | None:
        """Fire for what has waited too long."""
        late = [one for one in state.pending if one.deadline <= time]
        state.pending = [one for one in state.pending if one.deadline > time]
        return self._hit(late)

    def on_session_end(self, _end: sg.SessionEnd, state: MustCallAfterState) -> sg.Hit | None:
        """Fire for what still waits."""
        return self._hit(state.pending)

    def _hit(self, late: list[Awaited]) -> sg.Hit | None:
        if not late:
            return None
        wanted, first = spoken(self.params.then, "what it asks for"), spoken(self.params.first, "what asks for it")
        what = f"{wanted} did not follow {first} in time"
        return sg.Hit(what, {"waiting": len(late), "wanted": self.params.then.text}, late[0].index)

    def _key(self, call: sg.ToolCall) -> str | None:
        if self._argument is None:
            return ""
        value = self._argument.find(call)
        return None if value is sg.MISSING else short_digest(value)
