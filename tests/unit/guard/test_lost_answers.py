"""A gate that is killed between two steps: whoever asks the next one gets what the killed one would have given."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from stream_guard.guard.gate import Gate
from stream_guard.guard.inline import Guard
from stream_guard.history.database import open_database
from stream_guard.judge.model import Action, Event, GateDecision, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.storage.stores import CheckpointStore
from stream_guard.testing import rule_spec
from tests.frameworks.world import KINDS

POLICY = Policy(
    rules=(
        rule_spec(KINDS["no_call"], {"tool": "wire"}, rule_id="ask", then=Action.PAUSE),
        rule_spec(KINDS["must_call_before"], {"first": "wire", "second": "settle"}, rule_id="first", then=Action.BLOCK),
    ),
    version="v1",
)
WIRE = ToolCall(session_id="s", event_id="e1", call_id="c1", tool="wire")
SETTLE = ToolCall(session_id="s", event_id="e2", call_id="c2", tool="settle")


class KilledError(BaseException):
    """The end of a process."""


def test_a_yes_that_was_recorded_before_a_kill_counts_for_the_rules_too(tmp_path: Path) -> None:
    def die_of_a_yes(event: Event) -> None:
        if isinstance(event, GateDecision) and event.action == "allow":
            raise KilledError

    with closing(open_database(str(tmp_path / "history.db"))) as history:
        with closing(CheckpointStore(tmp_path / "state.db")) as store:
            gate = Gate(POLICY, history, guard=Guard(POLICY, store=store), emit=die_of_a_yes)
            review = gate.check(WIRE).review
            assert review is not None
            gate.reviews.approve(review.id, by="ada")
            with pytest.raises(KilledError):
                gate.check(WIRE)
        with closing(CheckpointStore(tmp_path / "state.db")) as store:
            gate = Gate(POLICY, history, guard=Guard(POLICY, store=store))
            assert gate.check(WIRE).action is Action.ALLOW
            assert gate.check(SETTLE).action is Action.ALLOW
