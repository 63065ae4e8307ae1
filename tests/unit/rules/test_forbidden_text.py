"""``forbidden_text`` sees the events of its place alone, and can be derived from."""

from __future__ import annotations

import pytest
from stream_guard_rules.forbidden_text import ForbiddenText, ForbiddenTextParams

import stream_guard as sg
from stream_guard.judge.fold import Engine
from stream_guard.testing import find, one_rule_policy

TRACE: list[dict[str, sg.Json]] = [{"turn": "secret"}, {"call": "mail", "args": {"text": "secret"}}, {"user": "secret"}]


@pytest.mark.parametrize(("where", "at"), [("response", 0), ("tool_args", 1), ("user", 2)])
def test_forbidden_text_is_looked_for_in_its_place_alone(where: str, at: int) -> None:
    policy = one_rule_policy(ForbiddenText, {"text": "secret", "where": where})
    assert [place for place, _ in find(policy, TRACE)] == [at]
    index = Engine(policy).local
    plans = [index.turns, index.calls["mail"], index.users]
    assert [plan is not None for plan in plans] == [place == at for place in range(3)]


def test_a_kind_of_ours_can_be_derived_from() -> None:
    class Stern(ForbiddenText):
        """A stranger's."""

        kind = "stern"

        def on_turn(self, turn: sg.Turn, state: sg.NoState) -> sg.Hit | None:
            hit = super().on_turn(turn, state)
            return hit and sg.Hit(f"{hit.detail}!")

    assert isinstance(Stern(ForbiddenTextParams(text="secret")), Stern)
    [(at, finding)] = find(one_rule_policy(Stern, {"text": "secret"}), TRACE)
    assert (at, finding.detail) == (0, '"secret" occurs in the response!')
