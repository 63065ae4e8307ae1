"""Where the values of an argument come from: ``arg_provenance``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from stream_guard.learning.candidates import FEWEST, MOST_BROKEN, RuleCandidate, rule_id, surprise
from stream_guard.learning.classes import ANY, in_id, in_words
from stream_guard.learning.facts import USER, Facts, SessionFacts

_MOST_SOURCES: Final = 4  # tools; a value that comes from anywhere is no rule
_ENOUGH: Final = 0.99  # the share of sessions from which on another source is not looked for


class _Case(NamedTuple):
    """Where the values of an argument come from in one session, each by its sources."""

    weight: float
    own: frozenset[int]
    other: frozenset[int]  # what another session would have had of them


def mine_provenance(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield the arguments whose values were said before, by the user or by a few tools."""
    cases: defaultdict[tuple[str, str], list[_Case]] = defaultdict(list)
    for session in facts.sessions:
        for key, (own, other) in _sources(session).items():
            cases[key].append(_Case(session.weight, frozenset(own), frozenset(other)))
    allowed = {key: _cover(found) for key, found in cases.items()}
    for (tool, argument), found in cases.items():
        tasks = sum(case.weight for case in found)
        kept = sum(case.weight for case in found if _comes_from(case.own, allowed[tool, argument]))
        tools = [one for one, other in cases if other == argument and one != ANY]
        if tasks < FEWEST or kept < (1 - MOST_BROKEN) * tasks or (tool == ANY and len(tools) == 1):
            continue
        asked = [case for case in found if case.other]
        by_chance = sum(case.weight for case in asked if _comes_from(case.other, allowed[tool, argument]))
        certainty = surprise(kept, tasks, (by_chance + 1) / (sum(case.weight for case in asked) + 2))
        candidate = _candidate(facts, tool, argument, allowed[tool, argument], len(found), tasks, certainty)
        # A rule for one tool says no more than one for all that allows the same.
        same = [one for one in tools if tool == ANY and allowed[one, argument] == allowed[ANY, argument]]
        covers = tuple(rule_id("origin", one, argument) for one in same)
        yield replace(candidate, covers=covers, places=len(tools) if tool == ANY else 1)


def _sources(session: SessionFacts) -> dict[tuple[str, str], tuple[set[int], set[int]]]:
    """Return by tool and argument the sources of its values, and what another session would have had."""
    found: dict[tuple[str, str], tuple[set[int], set[int]]] = {}
    for call in session.calls:
        for argument, sources in call.origins.items():
            for tool in (call.tool, ANY):
                own, other = found.setdefault((tool, argument), (set(), set()))
                own.update(sources)
                other.update(call.chance.get(argument, ()))
    return found


def _comes_from(values: frozenset[int], allowed: int) -> bool:
    return all(sources & allowed for sources in values)


def _cover(found: Sequence[_Case]) -> int:
    """Return the sources that explain the values: the user, and then the tool that explains most of the rest."""
    tasks = sum(case.weight for case in found)
    allowed = USER
    for _ in range(_MOST_SOURCES + 1):
        kept = sum(case.weight for case in found if _comes_from(case.own, allowed))
        if kept >= _ENOUGH * tasks:
            return allowed
        gains: defaultdict[int, float] = defaultdict(float)
        for case in found:
            for sources in case.own:
                if not sources & allowed:
                    for bit in _bits(sources):
                        gains[bit] += case.weight
        if not gains:
            break
        allowed |= max(gains, key=lambda bit: (gains[bit], -bit))
    return allowed


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest
        number ^= lowest


def _candidate(
    facts: Facts, tool: str, argument: str, allowed: int, support: int, tasks: float, certainty: float
) -> RuleCandidate:
    tools = [facts.sources[bit.bit_length() - 2] for bit in _bits(allowed & ~USER)]
    patterns = [facts.names.pattern(name) for name in sorted(tools)]
    said = " or ".join(["the user", *sorted(tools)])
    return RuleCandidate(
        id=rule_id("origin", in_id(tool), argument),
        kind="arg_provenance",
        params={
            "tool": facts.names.pattern(tool),
            "path": argument,
            "allow": {"user": True, **({"tools": patterns} if patterns else {})},
        },
        words=f"{argument} of {in_words(tool)} was said by {said}",
        tools=(tool,),
        support=support,
        tasks=tasks,
        surprise=certainty,
    )
