"""Sessions that are unlike nearly all others: somebody may have put them among the fine ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Set
from typing import Final

from stream_guard.learning.candidates import Shares
from stream_guard.learning.facts import Facts
from stream_guard.learning.learned import OddSession

_RARE: Final = 0.05  # the share of sessions that may do what nearly all others do not
_REASONS: Final = 3  # that make a session odd


def find_odd(facts: Facts, judged: Container[str], broken: Mapping[str, Set[str]]) -> list[OddSession]:
    """Return the sessions that break several rules or habits which nearly all others keep, the oddest first."""
    sessions = [session for session in facts.sessions if session.session_id in judged]
    few = _RARE * len(sessions) + 1
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for rule, names in broken.items():
        for name in names if len(names) <= few else ():
            reasons[name].append(rule)
    calls = Shares(facts).sessions
    rare = {tool for tool, count in calls.items() if count <= _RARE * len(facts.sessions)}
    usual = {tool for tool, count in calls.items() if count >= (1 - _RARE) * len(facts.sessions)}
    for session in sessions:
        called = {call.tool for call in session.calls}
        reasons[session.session_id] += [f"calls {tool}" for tool in sorted(rare & called)]
        reasons[session.session_id] += [f"does not call {tool}" for tool in sorted(usual - called)]
    odd = [OddSession(name, tuple(found)) for name, found in reasons.items() if len(found) >= _REASONS]
    return sorted(odd, key=lambda one: (-len(one.reasons), one.session_id))
