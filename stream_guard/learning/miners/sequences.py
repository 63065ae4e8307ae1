"""Which call never comes after which: ``no_sequence``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from stream_guard.learning.candidates import MOST_BROKEN, RuleCandidate, Shares, rule_id, surprise
from stream_guard.learning.facts import Facts

_ANY = "*"
_LAST_BY_CHANCE = 0.5


def mine_sequences(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield the calls that never follow on others, and those on which nothing follows."""
    shares = Shares(facts)
    common = shares.common()
    listed = set(common)
    followed: defaultdict[tuple[str, str], float] = defaultdict(float)
    for session in facts.sessions:
        seen: set[str] = set()
        pairs: set[tuple[str, str]] = set()
        for call in session.calls:
            if call.tool not in listed:
                pairs |= {(first, _ANY) for first in seen}
                continue
            pairs |= {(first, call.tool) for first in seen}
            pairs |= {(first, _ANY) for first in seen}
            seen.add(call.tool)
        for pair in pairs:
            followed[pair] += session.weight
    for first in common:
        tasks = shares.tasks[first]
        if followed[first, _ANY] <= MOST_BROKEN * tasks:
            others = (rule_id("most", first), *(rule_id("never", second, "after", first) for second in common))
            kept = surprise(tasks - followed[first, _ANY], tasks, _LAST_BY_CHANCE)
            yield _never(facts, shares, first, _ANY, kept, others)
        for second in common:
            broken = followed[first, second]
            if second == first or broken > MOST_BROKEN * min(tasks, shares.tasks[second]):
                continue
            by_chance = 1 - shares.of(first) * shares.of(second) / 2
            yield _never(facts, shares, first, second, surprise(shares.all_tasks - broken, shares.all_tasks, by_chance))


def _never(
    facts: Facts, shares: Shares, first: str, second: str, kept: float, covers: tuple[str, ...] = ()
) -> RuleCandidate:
    name = "anything" if second == _ANY else second
    last = {"on": "call"} if second == _ANY else {"tool": facts.names.pattern(second)}
    return RuleCandidate(
        id=rule_id("never", name, "after", first),
        kind="no_sequence",
        params={"steps": [{"tool": facts.names.pattern(first)}, last]},
        words=f"{'no call' if second == _ANY else second + ' never'} comes after {first}",
        tools=(first,) if second == _ANY else (second,),
        support=shares.sessions[first],
        tasks=shares.tasks[first],
        surprise=kept,
        covers=covers,
    )
