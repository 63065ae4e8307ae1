"""The same call fails no more than n times in a span of time."""

from __future__ import annotations

from math import inf
from typing import Any, Final

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.json_values import short_digest
from stream_guard_rules.shared.lost_memory import FORGOTTEN, evict_oldest, was_forgotten

_MOST_TOOLS: Final = 32


class MaxFailedRetriesParams(sg.Params):
    """Parameters of ``max_failed_retries``."""

    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="the tools that are looked at: a name, a glob, or a list"
    )
    n: int = Field(default=3, ge=1, le=100, description="failures of the same call that are still fine")
    within_seconds: sg.Duration = Field(default=60.0, description="in which span they are counted, which is half-open")
    success_resets: bool = Field(default=False, description="true: a success of the same call begins a new count")


class MaxFailedRetriesState(sg.State):
    """The latest attempts, each with the digest of its call, and for each call when it failed."""

    attempts: dict[int, str] = {}
    failures: dict[str, list[float]] = {}
    forgotten: sg.Sketch | None = None
    evicted_until: float = -inf  # the latest failure among those that were forgotten


def _tried(call_id: str, at: int, status: str = "error", u: int = 1) -> list[dict[str, Any]]:
    call = {"call": "fetch", "args": {"u": u}, "id": call_id, "at": at}
    return [call, {"result": "fetch", "id": call_id, "status": status, "at": at + 1}]


class MaxFailedRetries(sg.Rule[MaxFailedRetriesParams, MaxFailedRetriesState]):
    """The same call must not fail more than ``n`` times ``within_seconds``: the same tool with the same arguments.

    It fires at the failure that is too many. A success of the same call in between does not reset the count, unless
    ``success_resets`` says so: only time does. The latest 32 open attempts and 16 failing calls are remembered; the
    failure of a call that was forgotten could not be judged.
    """

    kind = "max_failed_retries"
    equates_arguments = True
    state_limit = 32768
    examples = (
        sg.Example(
            claim="the failure that is too many is a hit",
            params={"n": 1},
            trace=[*_tried("a", 0), *_tried("b", 2)],
            hits=[3],
        ),
        sg.Example(
            claim="other arguments are another call",
            params={"n": 1},
            trace=[*_tried("a", 0), *_tried("b", 2, u=2)],
            hits=[],
        ),
        sg.Example(
            claim="a success in between does not reset the count",
            params={"n": 1},
            trace=[*_tried("a", 0), *_tried("b", 2, status="ok"), *_tried("c", 4)],
            hits=[5],
        ),
        sg.Example(
            claim="with success_resets it does",
            params={"n": 1, "success_resets": True},
            trace=[*_tried("a", 0), *_tried("b", 2, status="ok"), *_tried("c", 4)],
            hits=[],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tools that are looked at."""
        return self.params.tool

    def needs(self) -> frozenset[sg.Need]:
        """Arguments and a clock."""
        return frozenset(("content", "clock"))

    def rests_on_memory(self, _call: sg.ToolCall) -> bool:
        """No call breaks it."""
        return False

    def on_tool_call(self, call: sg.ToolCall, state: MaxFailedRetriesState) -> sg.Verdict:
        """Remember which call it is."""
        if call.args is None:
            return sg.Unsure("unevaluable", "arguments")
        state.attempts[call.attempt] = short_digest([call.tool, call.args])
        evict_oldest(state.attempts, _MOST_TOOLS, state)
        return None

    def on_tool_result(self, result: sg.ToolResult, state: MaxFailedRetriesState) -> sg.Verdict:
        """Count a failure of the same call."""
        call = state.attempts.pop(result.attempt, None)
        if result.status == "ok" and call is not None and self.params.success_resets:
            state.failures.pop(call, None)
        if result.status != "error" or result.time is None:
            return None
        if call is None:
            return FORGOTTEN if was_forgotten(str(result.attempt), state) else None
        now, most = result.time, self.params.n + 1
        recent = [time for time in state.failures.pop(call, []) if time > now - self.params.within_seconds]
        state.failures[call] = recent = [*recent, now][-most:]
        if len(state.failures) > _MOST_TOOLS // 2:
            oldest = next(iter(state.failures.values()))
            state.evicted_until = max(state.evicted_until, oldest[-1])
            evict_oldest(state.failures, _MOST_TOOLS // 2, state)
        if len(recent) < most:
            is_young = now - state.evicted_until < self.params.within_seconds
            return FORGOTTEN if is_young and was_forgotten(call, state) else None
        evidence = {"tool": result.tool, "failures": len(recent), "limit": self.params.n}
        return sg.Hit(f"the same call of {result.tool} failed {len(recent)} times", evidence)
