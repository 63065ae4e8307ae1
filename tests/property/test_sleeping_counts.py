"""A count that sleeps between calls of its tool finds what one finds that is asked at every call."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from stream_guard_rules.tool_guard import ToolGuard, ToolGuardState

import stream_guard as sg
from stream_guard.judge.counts import Counts
from stream_guard.testing import find, one_rule_policy

TOOLS = ("pay", "mail", "read")
NOW = 1_700_000_000.0


class NeverAsleep(ToolGuard):
    """Says nothing where the rule says that it is settled, so that the engine asks it every time."""

    kind = "never_asleep"

    def on_tool_call(self, call: sg.ToolCall, state: ToolGuardState) -> sg.Verdict:
        verdict = super().on_tool_call(call, state)
        return None if isinstance(verdict, sg.Settled) else verdict


tool = st.sampled_from(TOOLS)
counted = st.fixed_dictionaries({"value": st.integers(0, 3)}, optional={"tool": tool})
when = st.one_of(
    st.builds(
        lambda name, count: {name: count},
        st.sampled_from(["call_count_in_run_gt", "call_count_in_session_gt"]),
        counted,
    ),
    st.builds(
        lambda count, wide: {"call_count_in_window_gt": count | {"windowSeconds": wide}},
        counted,
        st.sampled_from([1, 5, 60]),
    ),
)
calls = st.lists(
    st.fixed_dictionaries(
        {"call": tool, "args": st.sampled_from([{}, {"n": 1}, {"n": 9}]), "run": st.sampled_from(["a", "b"])},
        # Late, equal and missing times too.
        optional={"at": st.sampled_from([0.0, 0.5, 1.0, 4.0, 5.0, 61.0]).map(lambda step: NOW + step)},
    ),
    max_size=25,
)
engines = st.sampled_from(
    [{}, {"when": {"path": "tool.args.n", "op": ">", "value": 5}}, {"scope": "run"}, {"cooldown": 5.0}]
)


def judged(kind: type[ToolGuard], params: dict[str, Any], trace: list[dict[str, Any]], engine: dict[str, Any]) -> Any:
    counts = Counts()
    found = find(one_rule_policy(kind, params, **engine), trace, counts=counts)
    return [(place, one.detail, one.evidence) for place, one in found], dict(counts.unevaluable)


@given(when, calls, engines)
def test_a_count_that_sleeps_finds_what_one_finds_that_never_does(
    asked: dict[str, Any], trace: list[dict[str, Any]], engine: dict[str, Any]
) -> None:
    params = {"when": asked}
    assert judged(ToolGuard, params, trace, engine) == judged(NeverAsleep, params, trace, engine)
