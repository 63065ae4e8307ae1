"""The laws hold for every registered kind, and catch the kinds that break them."""

from __future__ import annotations

import time

import pytest
from hypothesis import settings
from pydantic import Field

import stream_guard as sg
from stream_guard.registry import build_registry
from stream_guard.testing import calls, check_laws

KINDS = build_registry().kinds


@pytest.mark.hypothesis  # searches, as a test with examples of its own does
@pytest.mark.parametrize("kind", KINDS)
def test_kind_keeps_the_laws(kind: str) -> None:
    # Each example is held to five laws under the params of every example.
    check_laws(KINDS[kind], examples=settings().max_examples // 5, longest=2_500)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_state_stays_bounded_over_the_longest_session(kind: str) -> None:
    check_laws(KINDS[kind], examples=1)


class Params(sg.Params):
    """Parameters of the kinds below."""

    tool: str = Field(description="the tool")


class Count(sg.State):
    """How many calls came."""

    calls: int = 0


class Seen(sg.State):
    """Everything that came: grows without bound."""

    tools: list[int] = []


EXAMPLES: tuple[sg.Example, ...] = (
    sg.Example(claim="the second call is a hit", params={"tool": "pay"}, trace=calls("pay", "pay"), hits=[1]),
    sg.Example(claim="one call is none", params={"tool": "pay"}, trace=calls("pay")),
)


class Honest(sg.Rule[Params, Count]):
    """A tool is called at most once."""

    kind = "honest"
    examples = EXAMPLES

    def on_tool_call(self, call: sg.ToolCall, state: Count) -> sg.Hit | None:
        if call.tool != self.params.tool:
            return None
        state.calls += 1
        return sg.Hit("again") if state.calls > 1 else None


class RemembersOnItself(Honest):
    """A tool is called at most once, counted in the wrong place."""

    seen = 0

    def on_tool_call(self, call: sg.ToolCall, state: Count) -> sg.Hit | None:
        if call.tool != self.params.tool:
            return None
        self.seen += 1
        return sg.Hit("again") if self.seen > 1 else None


class RemembersOnItsClass(Honest):
    """A tool is called at most once, counted for all sessions together."""

    sessions: dict[str, int] = {}

    def on_tool_call(self, call: sg.ToolCall, state: Count) -> sg.Hit | None:
        if call.tool == self.params.tool:
            self.sessions["all"] = self.sessions.get("all", 0) + 1
        return super().on_tool_call(call, state)


class AsksTheWallClock(Honest):
    """A tool is called at most once before the end of time."""

    def on_tool_call(self, call: sg.ToolCall, state: Count) -> sg.Hit | None:
        return super().on_tool_call(call, state) if time.time() > 0 else None


class ChangesEvents(Honest):
    """A tool is called at most once, and its arguments are improved."""

    def on_tool_call(self, call: sg.ToolCall, state: Count) -> sg.Hit | None:
        if isinstance(call.args, dict):
            call.args["seen"] = True
        return super().on_tool_call(call, state)


class RemembersEverything(sg.Rule[Params, Seen]):
    """A tool is called at most once, and every call is kept."""

    kind = "hoarder"
    examples = EXAMPLES

    def on_tool_call(self, call: sg.ToolCall, state: Seen) -> sg.Hit | None:
        if call.tool != self.params.tool:
            return None
        state.tools.append(call.attempt)
        return sg.Hit("again") if len(state.tools) > 1 else None


class ShowsNothing(Honest):
    """A tool is called at most once."""

    examples = ()


def test_an_honest_kind_passes() -> None:
    check_laws(Honest, longest=2_500)


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (RemembersOnItself, "law of"),
        (RemembersOnItsClass, "law of"),
        (AsksTheWallClock, "law of determinism|wall clock"),
        (ChangesEvents, "purity of events"),
        (RemembersEverything, "bounded state"),
        (ShowsNothing, "no example that hits"),
    ],
)
def test_a_kind_that_breaks_a_law_is_caught(kind: type[sg.Rule[Params, sg.State]], law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        check_laws(kind)
