"""What a rule needs of the engine may depend on its params: handlers, and a state."""

from __future__ import annotations

import pytest
from stream_guard_rules.response import ForbiddenText, ForbiddenTextParams
from stream_guard_rules.tool_guard import ToolGuard, ToolGuardParams

import stream_guard as sg
from stream_guard.engine import Engine
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


@pytest.mark.parametrize(("where", "at"), [("response", 0), ("tool_args", 1), ("user", 2)])
def test_forbidden_text_is_looked_for_in_its_place_alone(where: str, at: int) -> None:
    policy = one_rule_policy(ForbiddenText, {"text": "secret", "where": where})
    assert [place for place, _ in find(policy, TRACE)] == [at]
    index = Engine(policy).local
    plans = [index.turns, index.calls["mail"], index.users]
    assert [plan is not None for plan in plans] == [place == at for place in range(3)]


def test_a_kind_that_derives_from_another_has_the_state_that_it_names() -> None:
    assert Counting.state_type is Counted
    assert Forgetful.state_type is sg.NoState
    assert Forgetful.params_type is sg.Params


@pytest.mark.parametrize(
    ("when", "remembers"),
    [({"tool_name_in": ["pay"]}, False), ({"not": {"call_count_in_run_gt": {"value": 2}}}, True)],
)
def test_a_rule_about_attempts_has_a_state_where_something_is_counted(when: sg.Json, *, remembers: bool) -> None:
    rule = ToolGuard(ToolGuardParams.model_validate({"when": when}))
    assert issubclass(rule.state_type, sg.NoState) is not remembers
    [bound] = Engine(one_rule_policy(ToolGuard, {"when": when})).bounds
    assert bound.stateless is not remembers
    assert (bound.ungated is not None) is remembers


def test_a_kind_of_ours_can_be_derived_from() -> None:
    class Stern(ForbiddenText):
        """A stranger's."""

        kind = "stern"

        def on_turn(self, turn: sg.Turn, state: sg.NoState) -> sg.Hit:
            return sg.Hit(f"{super().on_turn(turn, state).detail}!")

    assert isinstance(Stern(ForbiddenTextParams(text="secret")), Stern)
    [(at, finding)] = find(one_rule_policy(Stern, {"text": "secret"}), TRACE)
    assert (at, finding.detail) == (0, '"secret" occurs in the response!')
