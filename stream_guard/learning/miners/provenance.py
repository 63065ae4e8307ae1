"""Where the values of an argument come from: ``arg_provenance``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from stream_guard.learning.candidates import FEWEST, MOST_BROKEN, RuleCandidate, rule_id, surprise
from stream_guard.learning.facts import ANY, USER, Facts, in_id, in_words

_ANYBODY: Final = -1  # all sources
_ENOUGH: Final = 0.99  # the share of tasks from which on no other source is looked for


class _Case(NamedTuple):
    """Where the values of an argument come from in one session, each by its sources."""

    weight: float
    own: frozenset[int]
    other: frozenset[int]  # what another session would have had of them


def mine_provenance(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield the arguments whose values were said before: by the user, by one tool besides, or at least by somebody.

    Arguments of one name are taken together, because most tools are called in few sessions. Of a tool that is hardly
    known, no more is claimed than that somebody said its values.
    """
    tools: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for session in facts.sessions:
        for tool, argument in {(call.tool, argument) for call in session.calls for argument in call.origins}:
            tools[argument][tool] += session.weight
    known = {argument: {tool for tool, tasks in found.items() if tasks >= FEWEST} for argument, found in tools.items()}
    of_known, of_all = _cases(facts, known), _cases(facts, tools)
    for argument, found in of_all.items():
        allowed = _allowed(of_known[argument])
        if allowed == _ANYBODY:
            yield from _candidate(facts, sorted(tools[argument]), argument, _ANYBODY, found)
        else:
            yield from _candidate(facts, sorted(known[argument]), argument, allowed, of_known[argument])


def _cases(facts: Facts, tools: Mapping[str, Container[str]]) -> defaultdict[str, list[_Case]]:
    """Return by argument where its values come from in each session, in the calls of some tools."""
    cases: defaultdict[str, list[_Case]] = defaultdict(list)
    for session in facts.sessions:
        found: defaultdict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
        for call in session.calls:
            for argument, sources in call.origins.items():
                if call.tool in tools[argument]:
                    found[argument][0].update(sources)
                    found[argument][1].update(call.chance.get(argument, ()))
        for argument, (own, other) in found.items():
            cases[argument].append(_Case(session.weight, frozenset(own), frozenset(other)))
    return cases


def _comes_from(values: frozenset[int], allowed: int) -> bool:
    return all(sources & allowed for sources in values)


def _allowed(found: Sequence[_Case]) -> int:
    """Return the sources that explain the values: the user, and one tool at most.

    More of them are a list that the next session adds to.
    """
    enough = _ENOUGH * sum(case.weight for case in found)
    for allowed in (USER, USER | _most_frequent(found)):
        if found and sum(case.weight for case in found if _comes_from(case.own, allowed)) >= enough:
            return allowed
    return _ANYBODY


def _most_frequent(found: Sequence[_Case]) -> int:
    """Return the tool that said most of what the user did not say."""
    tasks: defaultdict[int, float] = defaultdict(float)
    for case in found:
        for sources in case.own:
            for bit in _bits(sources) if not sources & USER else ():
                tasks[bit] += case.weight
    return max(tasks, key=lambda bit: (tasks[bit], -bit), default=0)


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest
        number ^= lowest


def _candidate(
    facts: Facts, tools: Sequence[str], argument: str, allowed: int, found: Sequence[_Case]
) -> Iterator[RuleCandidate]:
    tasks = sum(case.weight for case in found)
    kept = sum(case.weight for case in found if _comes_from(case.own, allowed))
    if tasks < FEWEST or kept < (1 - MOST_BROKEN) * tasks:
        return
    asked = [case for case in found if case.other]
    by_chance = sum(case.weight for case in asked if _comes_from(case.other, allowed))
    if allowed == _ANYBODY:
        said, sources, judged = "somebody", [ANY], [ANY] if len(tools) > 1 else tools
    else:
        sources = [facts.sources[bit.bit_length() - 2] for bit in _bits(allowed & ~USER)]
        said, judged = " or ".join(["the user", *sources]), tools
    patterns = [facts.names.pattern(name) for name in sources]
    yield RuleCandidate(
        id=rule_id("origin", tools[0] if len(tools) == 1 else in_id(ANY), argument),
        kind="arg_provenance",
        params={
            "tool": [facts.names.pattern(tool) for tool in judged],
            "path": argument,
            "allow": {"user": True, **({"tools": patterns} if patterns else {})},
        },
        words=f"{argument} of {' or '.join(map(in_words, judged))} was said by {said}",
        tools=tuple(tools),
        support=len(found),
        tasks=tasks,
        surprise=surprise(kept, tasks, (by_chance + 1) / (sum(case.weight for case in asked) + 2)),
        places=len(tools),
    )
