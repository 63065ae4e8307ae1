"""How long, how fast and how dear a session is at most: turns, tokens, cost, calls in a minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from typing import Any, Final

from stream_guard.learning.candidates import FEWEST_FOR_BOUND, RuleCandidate, edge, rule_id
from stream_guard.learning.facts import Facts, SessionFacts

_MINUTE: Final = 60.0
_MOST_CALLS: Final = 1000  # in a minute; more no rule remembers


def mine_bands(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield the bands that recordings have figures for."""
    yield from _band(facts, "turns", "max_turns", lambda session: session.turns or None, "n")
    yield from _band(facts, "tokens", "max_total_tokens", lambda session: session.tokens, "n")
    yield from _band(facts, "dollars", "max_cost", lambda session: session.cost, "usd", whole=False)
    pace = {"measure": "count", "window_seconds": int(_MINUTE), "again": "crossing"}
    yield from _band(facts, "calls in a minute", "max_aggregate", _pace, "over", pace)


def _band(
    facts: Facts,
    what: str,
    kind: str,
    measure: Callable[[SessionFacts], float | None],
    parameter: str,
    params: dict[str, Any] | None = None,
    *,
    whole: bool = True,
) -> Iterator[RuleCandidate]:
    known = [(value, session.weight) for session in facts.sessions if (value := measure(session)) is not None]
    tasks = sum(weight for _, weight in known)
    most = edge((value for value, _ in known), whole=whole)
    if tasks < FEWEST_FOR_BOUND or most is None or most <= 0:
        return
    bound = ceil(most) if whole else float(f"{most:.4g}")
    yield RuleCandidate(
        id=rule_id("band", *what.split()),
        kind=kind,
        params={**(params or {}), parameter: bound},
        words=f"a session has at most {bound:,} {what}",
        tools=(),
        support=len(known),
        tasks=tasks,
        surprise=None,
    )


def _pace(session: SessionFacts) -> float | None:
    """Return the most calls in any minute; None without a clock."""
    times = sorted(call.time for call in session.calls if call.time is not None)
    if len(times) < len(session.calls) or len(set(times)) < 2:  # one time for all calls is no clock
        return None
    start = most = 0
    for end, time in enumerate(times):
        while time - times[start] >= _MINUTE:
            start += 1
        most = max(most, end - start + 1)
    return float(most) if most < _MOST_CALLS else None
