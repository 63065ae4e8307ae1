"""A policy file that begins to ask a judge while a process runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_guard.registry import build_registry
from stream_guard.running.reload import ReloadingPolicy
from tests.unit.running.test_reload import ORDER, rules, write

ASKING = "rules: [{id: brief, kind: must_satisfy_judge, params: {rule: Be brief., tool: t}}]"


def test_the_first_rule_that_asks_needs_another_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, registry = tmp_path / "policy.yaml", build_registry()
    write(file, rules(ORDER))
    following = ReloadingPolicy(file, registry)
    write(file, ASKING)
    assert following.poll() is None
    assert "brief would be the first to ask a judge" in caplog.text
    write(file, rules(ORDER.replace("refund", "payout")))
    assert following.poll() is not None, "a later one without such rules is taken"


def test_one_that_asked_at_the_start_may_stop_and_ask_again(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    write(file, ASKING)
    following = ReloadingPolicy(file, build_registry())
    for text in (rules(ORDER), ASKING):
        write(file, text)
        assert following.poll() is not None
