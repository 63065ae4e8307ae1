"""Who may call what: ``must_call_only``, for each agent."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from stream_guard.learning.candidates import FEWEST_FOR_BOUND, RuleCandidate, rule_id
from stream_guard.learning.facts import Facts
from stream_guard.learning.names import is_plain_name

_MOST_TOOLS: Final = 60
_FEWEST_TASKS: Final = 3  # of each tool: one that is called more rarely says that there are others


def mine_callers(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield for each agent the tools that it calls, where none of them is called rarely."""
    tools: defaultdict[str, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    sessions: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for session in facts.sessions:
        for call in session.calls:
            agent = call.agent.partition("@")[0]
            tools[agent][call.tool].add(session.task)
            sessions[agent][session.session_id] = session.weight
    for agent, called in tools.items():
        tasks = sum(sessions[agent].values())
        if tasks < FEWEST_FOR_BOUND or len(called) > _MOST_TOOLS or min(map(len, called.values())) < _FEWEST_TASKS:
            continue
        if agent and not is_plain_name(agent):
            continue
        named = {"when": {"path": "agent", "op": "matches", "value": f"^{re.escape(agent)}(@|$)"}} if agent else {}
        yield RuleCandidate(
            id=rule_id("caller", agent or "any"),
            kind="must_call_only",
            params={"tool": sorted(map(facts.names.pattern, called))},
            words=f"{agent or 'the agent'} calls only {', '.join(sorted(called))}",
            tools=(),
            support=len(sessions[agent]),
            tasks=tasks,
            surprise=None,
            extra=named,
        )
