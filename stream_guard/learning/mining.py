"""All miners together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from stream_guard.learning.candidates import FEWEST, RuleCandidate, Shares
from stream_guard.learning.facts import Facts
from stream_guard.learning.miners.arguments import mine_arguments, mine_callers
from stream_guard.learning.miners.counts import mine_bands, mine_counts, mine_habits
from stream_guard.learning.miners.lookups import mine_lookups, mine_provenance
from stream_guard.learning.miners.orders import mine_consent, mine_orders, mine_sequences

MINERS: Final[tuple[Callable[[Facts], Iterable[RuleCandidate]], ...]] = (
    mine_orders,
    mine_sequences,
    mine_counts,
    mine_arguments,
    mine_provenance,
    mine_lookups,
    mine_callers,
    mine_bands,
    mine_consent,
    mine_habits,
)


def mine(facts: Facts) -> dict[str, RuleCandidate]:
    """Return all candidates by id."""
    return {candidate.id: candidate for miner in MINERS for candidate in miner(facts)}


def count_tests(facts: Facts) -> int:
    """Return how many relations the miners looked at: between two tools, and between a tool and an argument."""
    tools = len(Shares(facts).common())
    tasks: defaultdict[tuple[str, str], float] = defaultdict(float)
    for session in facts.sessions:
        for key in {(call.tool, path) for call in session.calls for path in call.args}:
            tasks[key] += session.weight
    arguments = sum(weight >= FEWEST for weight in tasks.values())
    return 2 * tools**2 + arguments * (tools + 1)
