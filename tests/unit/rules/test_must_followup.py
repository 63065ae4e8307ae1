"""Follow-ups that are pending are bounded."""

from __future__ import annotations

from stream_guard_rules.must_followup import MustFollowup, MustFollowupParams, MustFollowupState

from stream_guard import Turn
from tests.unit.rules.stored_states import stored_size


def test_pending_follow_ups_are_bounded() -> None:
    params = MustFollowupParams.model_validate(
        {"trigger": [], "must": {"kind": "text_includes", "text": "z"}, "within_turns": 64, "within_seconds": "1h"}
    )
    rule, state = MustFollowup(params), MustFollowupState()
    hits = [rule.on_turn(Turn(session_id="s", index=index, time=1.7e9), state) for index in range(200)]
    assert [hit is not None for hit in hits] == [False] * 64 + [True] * 136
    assert stored_size(state) <= rule.state_limit
