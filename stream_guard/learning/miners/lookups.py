"""What a call has in common with what was looked up for it: ``must_match_lookup``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stream_guard.judge.model import Json
from stream_guard.learning.candidates import FEWEST, MOST_BROKEN, RuleCandidate, rule_id, surprise
from stream_guard.learning.facts import ANY, USER, CallFacts, Facts, Link, in_id, in_words, is_secret

_MOST_STATES: Final = 3  # words of one field of a result that a rule lists

_Place = tuple[str, str, str, str]  # the call, its lookup, the argument that they share, and its name in the lookup


class _LookedUp:
    """The calls of one tool that a lookup came before."""

    __slots__ = ("compared", "equal", "sessions", "states", "values", "weight")

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.weight = 0.0
        self.states: defaultdict[str, dict[Json, float]] = defaultdict(dict)  # by field: tasks of each word
        self.equal: defaultdict[tuple[str, str], float] = defaultdict(float)  # argument and field: tasks
        self.compared: defaultdict[str, float] = defaultdict(float)  # argument: tasks that have it
        self.values: defaultdict[str, Counter[Json]] = defaultdict(Counter)  # argument: its values


def mine_lookups(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield the states of a record that a call wants, and the arguments that repeat what the record says."""
    found: defaultdict[_Place, _LookedUp] = defaultdict(_LookedUp)
    states: defaultdict[tuple[str, str], defaultdict[Json, float]] = defaultdict(lambda: defaultdict(float))
    for session in facts.sessions:
        linked: defaultdict[_Place, list[tuple[CallFacts, Link]]] = defaultdict(list)
        for call in session.calls:
            for link in call.links:
                linked[call.tool, link.lookup, link.argument, link.lookup_argument].append((call, link))
        for place, cases in linked.items():
            _add(found[place], session.session_id, session.weight, cases)
        for tool, path, word in session.states:
            states[tool, path][word] += session.weight
    for place, seen in found.items():
        if seen.weight >= FEWEST:
            yield from _states(facts, place, seen, states)
            yield from _equal(facts, place, seen)


def _add(seen: _LookedUp, session_id: str, weight: float, cases: list[tuple[CallFacts, Link]]) -> None:
    seen.sessions.add(session_id)
    seen.weight += weight
    for field in set.intersection(*(set(link.states) for _, link in cases)):
        for word in {link.states[field] for _, link in cases}:
            seen.states[field][word] = seen.states[field].get(word, 0.0) + weight
    given = [set(call.args) for call, _ in cases]
    for argument in set.union(*given):
        seen.compared[argument] += weight
    for call, _ in cases:
        for argument, value in call.args.items():
            seen.values[argument][value] += 1
    pairs = [link.equal for _, link in cases]
    for argument, field in set.union(*map(set, pairs)):
        if all(
            (argument, field) in equal or argument not in call.args
            for (call, _), equal in zip(cases, pairs, strict=True)
        ):
            seen.equal[argument, field] += weight


def _states(
    facts: Facts, place: _Place, seen: _LookedUp, everywhere: dict[tuple[str, str], defaultdict[Json, float]]
) -> Iterator[RuleCandidate]:
    """Yield a rule where a field has few words for the call, and others too in results that it did not follow on."""
    tool, lookup, argument, _ = place
    for field, words in seen.states.items():
        common = [word for word, tasks in words.items() if tasks > MOST_BROKEN * seen.weight]
        known = everywhere[lookup, field]
        rest = set(known) - set(common)
        kept = seen.weight - sum(tasks for word, tasks in words.items() if word not in common)
        if not common or len(common) > _MOST_STATES or not rest or kept < (1 - MOST_BROKEN) * seen.weight:
            continue
        if any(is_secret(field, word) for word in common):
            continue
        chance = sum(known[word] for word in common) / sum(known.values())
        listed = sorted(common, key=str)
        where = {"path": f"tool.result.output.{field}", "op": "in", "value": listed}
        yield _candidate(
            facts,
            place,
            seen,
            ("state", tool, lookup, field),
            {"where": where},
            f"{field} of {lookup} for the {argument} of {tool} is {' or '.join(map(str, listed))}",
            surprise(kept, seen.weight, chance),
        )


def _equal(facts: Facts, place: _Place, seen: _LookedUp) -> Iterator[RuleCandidate]:
    """Yield a rule for each argument that repeats a field, of several fields the one that it repeats most."""
    tool, lookup, _, _ = place
    best: dict[str, tuple[float, str]] = {}
    for (argument, field), tasks in seen.equal.items():
        compared = seen.compared[argument]
        if compared >= FEWEST and tasks >= (1 - MOST_BROKEN) * compared:
            best[argument] = max(best.get(argument, (0.0, "")), (tasks, field), key=lambda one: (one[0], one[1]))
    for argument, (tasks, field) in best.items():
        values = seen.values[argument]
        total = values.total()
        chance = sum(count * count for count in values.values()) / (total * total)
        yield _candidate(
            facts,
            place,
            seen,
            ("equal", tool, argument, lookup, field),
            {"equal": {argument: field}},
            f"{argument} of {tool} is what {lookup} says under {field}",
            surprise(tasks, seen.compared[argument], chance),
            covers=(rule_id("origin", tool, argument),),
        )


def _candidate(
    facts: Facts,
    place: _Place,
    seen: _LookedUp,
    name: tuple[str, ...],
    asked: dict[str, Any],
    words: str,
    certainty: float,
    *,
    covers: tuple[str, ...] = (),
) -> RuleCandidate:
    tool, lookup, argument, lookup_argument = place
    other = {} if argument == lookup_argument else {"lookup_arg": lookup_argument}
    return RuleCandidate(
        id=rule_id(*name),
        kind="must_match_lookup",
        params={
            "tool": facts.names.pattern(tool),
            "lookup": facts.names.pattern(lookup),
            "same_arg": argument,
            **other,
            "if_absent": "ignore",
            **asked,
        },
        words=words,
        tools=(tool,),
        support=len(seen.sessions),
        tasks=seen.weight,
        surprise=certainty,
        covers=covers,
    )


# Where the values of an argument come from: ``arg_provenance``.


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
            yield from _provenance_candidate(facts, sorted(tools[argument]), argument, _ANYBODY, found)
        else:
            yield from _provenance_candidate(facts, sorted(known[argument]), argument, allowed, of_known[argument])


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


def _provenance_candidate(
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
