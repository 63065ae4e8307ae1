"""``tool_guard`` has a state where something is counted, and none elsewhere."""

from __future__ import annotations

import pytest
from stream_guard_rules.tool_guard import ToolGuard, ToolGuardParams

import stream_guard as sg
from stream_guard.judge.fold import Engine
from stream_guard.testing import one_rule_policy


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
