"""Which values an argument has: one of a few words, or a number in a range. Both as ``no_call`` with a condition."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from stream_guard.judge.model import Json
from stream_guard.learning.candidates import FEWEST_FOR_BOUND, RuleCandidate, edge, rule_id
from stream_guard.learning.facts import ANY, Facts, SessionFacts, in_id, in_words, is_plain_name, is_secret

_MOST_WORDS: Final = 12
_PER_WORD: Final = 5  # tasks that there must be for each word
_LONGEST: Final = 60


class _Argument:
    """The values that one argument of one tool has."""

    __slots__ = ("numbers", "others", "sessions", "weight", "words")

    def __init__(self) -> None:
        self.words: defaultdict[Json, set[int]] = defaultdict(set)  # the tasks of each
        self.numbers: list[float] = []
        self.others = 0
        self.sessions: set[str] = set()
        self.weight = 0.0

    def add(self, value: Json, session: SessionFacts) -> None:
        """Take note of a value."""
        if session.session_id not in self.sessions:
            self.sessions.add(session.session_id)
            self.weight += session.weight
        if isinstance(value, str):
            if len(self.words) <= _MOST_WORDS:
                self.words[value].add(session.task)
        elif isinstance(value, bool):
            self.others += 1
        else:
            self.numbers.append(value)


def mine_arguments(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield the words that an argument is one of, and the range that its numbers are in."""
    found: defaultdict[tuple[str, str], _Argument] = defaultdict(_Argument)
    for session in facts.sessions:
        for call in session.calls:
            for path, value in call.args.items():
                found[call.tool, path].add(value, session)
                found[ANY, path].add(value, session)
    for (tool, path), argument in found.items():
        if argument.weight >= FEWEST_FOR_BOUND and not argument.others:
            if argument.words and not argument.numbers:
                yield from _one_of(facts, tool, path, argument, found)
            elif argument.numbers and not argument.words and tool != ANY:
                yield from _range(facts, tool, path, argument)


def _one_of(
    facts: Facts, tool: str, path: str, argument: _Argument, every: Mapping[tuple[str, str], _Argument]
) -> Iterator[RuleCandidate]:
    """A word that only one task has says that there are more of them: then it is no list."""
    seen = argument.words
    few = len(seen) <= _MOST_WORDS and argument.weight >= _PER_WORD * len(seen)
    if not few or min(map(len, seen.values())) < 2 or max(map(len, seen)) > _LONGEST:
        return
    listed = sorted(seen)
    if any(is_secret(path, word) for word in listed):
        return
    condition = {"path": f"tool.args.{path}", "op": "not_in", "value": listed}
    words = f"{path} of {in_words(tool)} is one of {', '.join(listed)}"
    tools = [one for one, other in every if other == path and one != ANY]
    if tool == ANY and len(tools) == 1:
        return
    same = [one for one in tools if tool == ANY and set(every[one, path].words) == set(listed)]
    covers = tuple(rule_id("values", one, path) for one in same)
    found = _candidate(facts, tool, path, argument, condition, words)
    yield replace(found, covers=covers, places=len(tools) if tool == ANY else 1)


def _range(facts: Facts, tool: str, path: str, argument: _Argument) -> Iterator[RuleCandidate]:
    whole = all(float(number).is_integer() for number in argument.numbers)
    high = edge(argument.numbers, whole=whole)
    low = edge((-number for number in argument.numbers), whole=whole)
    if high is None or low is None or len(set(argument.numbers)) < 2:
        return
    low = 0.0 if min(argument.numbers) >= 0 > -low else -low  # a sign is kept, or it is not
    sides = [
        {"path": f"tool.args.{path}", "op": "<", "value": _short(low)},
        {"path": f"tool.args.{path}", "op": ">", "value": _short(high)},
    ]
    words = f"{path} of {tool} is from {_short(low):g} to {_short(high):g}"
    yield _candidate(facts, tool, path, argument, {"any_of": sides}, words)


def _candidate(
    facts: Facts,
    tool: str,
    path: str,
    argument: _Argument,
    condition: Mapping[str, Any],
    words: str,
) -> RuleCandidate:
    return RuleCandidate(
        id=rule_id("values", in_id(tool), path),
        kind="no_call",
        params={"tool": facts.names.pattern(tool)},
        words=words,
        tools=(tool,),
        support=len(argument.sessions),
        tasks=argument.weight,
        surprise=None,
        extra={"when": condition},
    )


def _short(number: float) -> float:
    return int(number) if float(number).is_integer() else float(f"{number:.6g}")


# Who may call what: ``must_call_only``, for each agent.


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
