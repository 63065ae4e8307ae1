"""A stop reason of any type is judged."""

from __future__ import annotations

import pytest
from stream_guard_rules.required_stop_reason import RequiredStopReason, RequiredStopReasonParams

from stream_guard import Json, NoState, Turn


@pytest.mark.parametrize("reason", [["end_turn"], {"end_turn": 1}, 5, True])
def test_stop_reason_of_any_type_is_judged(reason: Json) -> None:
    rule = RequiredStopReason(RequiredStopReasonParams(allowed=["end_turn"]))
    assert rule.on_turn(Turn(session_id="s", response={"stop_reason": reason}), NoState()) is not None
