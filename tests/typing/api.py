"""What a rule author may rely on, said in types; mypy reads this file, nothing runs it."""

from __future__ import annotations

from typing import assert_type

from pydantic import Field

import stream_guard as sg
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Action, Decision, Finding
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry
from stream_guard.running.batch import evaluate
from stream_guard.testing import calls, events, run_rule


class Params(sg.Params):
    tool: sg.ToolPattern = Field(description="the tool that is counted")
    n: int = Field(default=1, description="how many calls are fine")
    within: sg.Duration = Field(default=60.0, description="in this span of time")
    unless: sg.Condition | None = Field(default=None, description="when more are fine")


class State(sg.State):
    seen: int = 0


class MaxCalls(sg.Rule[Params, State]):
    """A tool is called at most ``n`` times."""

    kind = "max_calls"

    def tools(self) -> sg.ToolPattern:
        return assert_type(self.params.tool, sg.ToolPattern)

    def on_tool_call(self, call: sg.ToolCall, state: State) -> sg.Hit | None:
        assert_type(call.tool, str)
        assert_type(call.time, float | None)
        assert_type(self.params.within, float)
        state.seen += 1
        return sg.Hit(f"{call.tool} was called {state.seen} times") if state.seen > self.params.n else None


@sg.hookimpl
def stream_guard_rules() -> list[sg.RuleType]:
    return [MaxCalls]


def use_of_the_modes(text: str, attempt: sg.ToolCall) -> None:
    registry = assert_type(build_registry(), Registry)
    policy = assert_type(load_policy(text, registry), Policy)
    assert_type(evaluate(events(calls("refund")), policy), list[Finding])
    decision = assert_type(Guard(policy).check(attempt), Decision)
    assert_type(decision.action, Action)
    assert_type(run_rule(MaxCalls, {"tool": "refund"}, calls("refund")), list[tuple[int | str, str]])
