"""The handlers and the state of a kind are those that it names."""

from __future__ import annotations

import stream_guard as sg
from stream_guard.testing import find, one_rule_policy

TRACE: list[dict[str, sg.Json]] = [{"turn": "secret"}, {"call": "mail", "args": {"text": "secret"}}, {"user": "secret"}]


class Picky(sg.Rule[sg.Params, sg.NoState]):
    """It has two handlers and needs one of them."""

    kind = "picky"

    def handlers(self) -> tuple[str, ...]:
        return ("on_turn",)

    def on_turn(self, _turn: sg.Turn, _state: sg.NoState) -> sg.Hit:
        return sg.Hit("a turn")

    def on_tool_call(self, _call: sg.ToolCall, _state: sg.NoState) -> sg.Hit:
        return sg.Hit("a call")


class Counted(sg.State):
    """A number."""

    number: int = 0


class Counting(sg.Rule[sg.Params, Counted]):
    """It has a state."""

    kind = "counting"


class Forgetful(Counting):
    """It derives from a kind with a state and has none."""

    kind = "forgetful"
    state_type = sg.NoState


def test_a_handler_that_a_rule_does_not_need_is_not_called() -> None:
    assert [at for at, _ in find(one_rule_policy(Picky, {}), TRACE)] == [0]


def test_a_kind_that_derives_from_another_has_the_state_that_it_names() -> None:
    assert Counting.state_type is Counted
    assert Forgetful.state_type is sg.NoState
    assert Forgetful.params_type is sg.Params
