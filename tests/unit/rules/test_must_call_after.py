"""An answer exactly at the deadline is too late (ADR 0005), in every mode; one just before it is in time."""

from __future__ import annotations

from typing import Any

import pytest

from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.testing import events, one_rule_policy
from stream_guard.testing.laws import check_agreement

KINDS = build_registry().kinds
PARAMS: dict[str, Any] = {"first": "a", "then": "b", "within_seconds": 60}


@pytest.mark.parametrize(("late", "findings"), [(59.999, 0), (60.0, 1), (60.001, 1)])
@pytest.mark.parametrize("elsewhere", [0.0, 59.999, 60.0, 500.0])
def test_every_mode_judges_an_answer_at_the_deadline_alike(late: float, findings: int, elsewhere: float) -> None:
    policy = one_rule_policy(KINDS["must_call_after"], PARAMS)
    trace: list[dict[str, Any]] = [{"call": "a", "at": 0.0}, {"call": "b", "at": late}]
    assert len(evaluate(events([*trace, {"end": "closed"}]), policy)) == findings
    # Another session moves the clock of a stream: to just before the answer, to its time, and beyond it.
    check_agreement(policy, trace, [{"user": "hello", "at": elsewhere}])
