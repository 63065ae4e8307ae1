"""Bad sessions among the fine ones: no rule turns against honest sessions, and what is odd is said."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from stream_guard.judge.model import Event
from stream_guard.learning.choosing import as_policy
from stream_guard.learning.learning import learn
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate
from stream_guard.settings import SessionLimits
from tests.unit.learning.desk import bad_session, fine_session, fine_sessions

REGISTRY = build_registry()
HONEST, POISONED = 95, 5


def _reversed(name: str, dice: Random) -> list[Event]:
    """A desk that cancels first and looks later."""
    order = f"P{dice.randrange(10**6)}"
    return list(
        bad_session(
            name,
            ("cancel_order", {"order_id": order, "reason": "none", "refund_to": "me"}),
            ("get_order", {"order_id": order}),
        )
    )


def _rare_tool(name: str, dice: Random) -> list[Event]:
    """A habit that only poisoned sessions have, about a tool that honest ones hardly call."""
    return list(
        bad_session(name, ("export_all", {"to": f"x{dice.random()}"}), ("transfer_to_person", {"summary": "x"}))
    )


def _huge(name: str, dice: Random) -> list[Event]:
    """Numbers and counts that would widen every band."""
    return list(bad_session(name, *(("get_order", {"order_id": f"H{dice.random()}"}) for _ in range(60))))


@pytest.mark.long
@pytest.mark.parametrize("poison", [_reversed, _rare_tool, _huge])
def test_no_rule_turns_against_honest_sessions_and_the_odd_ones_are_named(
    poison: Callable[[str, Random], list[Event]],
) -> None:
    dice = Random(7)
    bad = [event for number in range(POISONED) for event in poison(f"bad{number}", dice)]
    events = [*fine_sessions(HONEST), *bad]
    learned = learn(lambda: events, REGISTRY, SessionLimits())
    policy = as_policy((lesson.candidate for lesson in learned.proposed), REGISTRY)
    honest = [event for number in range(1000, 1100) for event in fine_session(number)]
    assert {finding.session_id for finding in evaluate(honest, policy)} == set()
    assert {one.session_id for one in learned.odd} <= {f"bad{number}" for number in range(POISONED)}
    if poison is not _huge:
        assert learned.odd
