"""Least effects on the command line: by axis or rule, and a clear refusal of anything else."""

from __future__ import annotations

import pytest
from stream_guard_diff.command import read_least

from stream_guard.errors import SettingsError
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

POLICY = "rules: [{id: no-all, kind: no_call, params: {tool: refund_all}}]"


def test_the_command_line_wins_over_the_settings() -> None:
    policy = load_policy(POLICY, build_registry(), file="policy.yaml")
    least = read_least({"refusals": 0.2, "errors": 0.3}, ["refusals=0.1", "no-all=0"], policy)
    assert least == {"refusals": 0.1, "errors": 0.3, "no-all": 0.0}


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("refusals", "write NAME=SHARE"),
        ("refusals=much", "write NAME=SHARE"),
        ("refusals=1.5", "from 0 to 1"),
        ("refusals=nan", "from 0 to 1"),
        ("no-all=0.1", "no axis and no rule of the policy is called 'no-all'"),
    ],
)
def test_what_is_no_least_effect_is_refused(flag: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read_least({}, [flag], None)
