"""Which calls wait for the user's yes: ``must_confirm_before``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from stream_guard.learning.candidates import FEWEST, RuleCandidate, rule_id
from stream_guard.learning.classes import is_grave
from stream_guard.learning.facts import Facts

_COVERS: Final = 10  # calls of one yes: what was agreed to often takes several
_TOGETHER: Final = "changes"


def mine_consent(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield a rule for each tool that acts, and one for all that change what was looked up.

    Whether sessions keep them, the engine says: it reads what was answered.
    """
    if not all(session.asked for session in facts.sessions):
        return
    sessions: defaultdict[str, dict[str, float]] = defaultdict(dict)
    changing: set[str] = set()
    for session in facts.sessions:
        for call in session.calls:
            if is_grave(call.tool):
                sessions[call.tool][session.session_id] = session.weight
                if call.links:
                    changing.add(call.tool)
    single = {tool: (tool,) for tool in sessions}
    for name, tools in {**single, _TOGETHER: tuple(sorted(changing))}.items():
        about = {one: weight for tool in tools for one, weight in sessions[tool].items()}
        tasks = sum(about.values())
        if tasks < FEWEST or (name == _TOGETHER and len(tools) < 2):
            continue
        patterns = [facts.names.pattern(tool) for tool in tools]
        yield RuleCandidate(
            id=rule_id("yes-before", name),
            kind="must_confirm_before",
            params={"tool": patterns if len(patterns) > 1 else patterns[0], "covers": _COVERS},
            words=f"the user says yes before {' or '.join(tools)}",
            tools=tools,
            support=len(about),
            tasks=tasks,
            surprise=0.0,
            places=len(tools),
            is_guess=True,
            covers=tuple(rule_id("yes-before", tool) for tool in tools if name == _TOGETHER),
        )
