from __future__ import annotations

from stream_guard_example_rule import NoCallAfter

from stream_guard.testing import calls, check_laws, run_rule

PARAMS = {"tool": "charge_*", "after": "close_account"}


def test_charge_after_closing_is_a_hit() -> None:
    hits = run_rule(NoCallAfter, PARAMS, calls("close_account", "charge_card"))
    assert hits == [(1, "charge_card was called after close_account")]


def test_charge_before_closing_is_silent() -> None:
    assert run_rule(NoCallAfter, PARAMS, calls("charge_card", "close_account")) == []


def test_kind_keeps_the_laws() -> None:
    check_laws(NoCallAfter)
