"""How often a tool is called at most, in a session and for one record: ``max_calls``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import Any, Final, NamedTuple

from stream_guard.learning.candidates import FEWEST, FEWEST_FOR_BOUND, RuleCandidate, edge, rule_id
from stream_guard.learning.facts import ACTS, ANY, Facts, SessionFacts, acts, in_id, in_words


def mine_counts(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield the most calls of each tool, of each tool for one value of an argument, and the most failures."""
    calls: defaultdict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    failures: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for session in facts.sessions:
        counted = _counted(session)
        for key, number in counted.items():
            calls[key].append((number, session.weight))
        failed = [call.tool for call in session.calls if call.failed]
        failures[ANY].append((len(failed), session.weight))
        if counted[ACTS, ""]:
            failures[ACTS].append((sum(map(acts, failed)), session.weight))
    once = {tool for (tool, argument), numbers in calls.items() if not argument and max(numbers)[0] == 1}
    for (tool, argument), numbers in calls.items():
        if argument and tool in once:
            continue  # then it is called once for everything
        yield from _most_calls(facts, tool, argument, numbers)
    for tool, numbers in failures.items():
        yield from _most_failures(tool, numbers)


def _counted(session: SessionFacts) -> Counter[tuple[str, str]]:
    """Return the calls of each tool, and with an argument the most that have the same value of it."""
    counted: Counter[tuple[str, str]] = Counter()
    for_one: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for call in session.calls:
        for tool in (call.tool, ACTS) if acts(call.tool) else (call.tool,):
            counted[tool, ""] += 1
            for argument, value in call.args.items():
                if isinstance(value, str):
                    for_one[tool, argument][value] += 1
    counted.update({key: max(values.values()) for key, values in for_one.items()})
    return counted


def _most_calls(facts: Facts, tool: str, argument: str, numbers: list[tuple[int, float]]) -> Iterator[RuleCandidate]:
    tasks = sum(weight for _, weight in numbers)
    # What acts has no room where many do it as often: once more cannot be undone. Nor has what is done to one record.
    most = edge((number for number, _ in numbers), room=0 if argument or acts(tool) else 1)
    if tasks < FEWEST_FOR_BOUND or most is None or (argument and most > 1):
        return
    for_one = f" for one {argument}" if argument else ""
    yield RuleCandidate(
        id=rule_id("most", in_id(tool), *(("for", argument) if argument else ())),
        kind="max_calls",
        params={"tool": facts.names.pattern(tool), "n": int(most)},
        words=f"{in_words(tool)} is called at most {int(most)} time{'s' * (most != 1)}{for_one}",
        tools=(tool,),
        support=len(numbers),
        tasks=tasks,
        surprise=None,
        extra={"key": ["session", f"args.{argument}"]} if argument else {},
    )


def _most_failures(tool: str, failures: list[tuple[int, float]]) -> Iterator[RuleCandidate]:
    tasks = sum(weight for _, weight in failures)
    most = edge(number for number, _ in failures)
    if tasks < FEWEST_FOR_BOUND or most is None or not any(number for number, _ in failures):
        return
    yield RuleCandidate(
        id=rule_id("most", "failures", in_id(tool)),
        kind="max_failed_calls",
        params={"tool": tool, "n": int(most) + 1},
        words=f"{in_words(tool)} is not tried again after {int(most) + 1} failures",
        tools=(tool,),
        support=len(failures),
        tasks=tasks,
        surprise=None,
    )


# How long, how fast and how dear a session is at most: turns, tokens, cost, calls in a minute.


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


# Habits that name no tool: whether sessions keep such a rule, the engine says.


class _Habit(NamedTuple):
    name: str
    kind: str
    params: Mapping[str, Any]
    words: str
    tools: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()


# The strictest first, which covers the others.
_HABITS: Final = (
    _Habit(
        "given-any",
        "must_be_given",
        {"tool": ANY},
        "values of any tool were given by somebody",
        (ANY,),
        covers=(rule_id("habit", "given"),),
    ),
    _Habit("given", "must_be_given", {"tool": ACTS}, "values of what acts were given by somebody", (ACTS,)),
    # Twice is no habit: of fine sessions, a few do anything twice.
    _Habit(
        "repeated-3",
        "no_repeated_calls",
        {"times": 3, "max_period": 1, "user_resets": False},
        "the same call is not made 3 times in a row",
    ),
    _Habit(
        "failures-3",
        "max_failed_calls",
        {"tool": ANY, "n": 3, "in_a_row": True},
        "nothing is tried after 3 failures in a row",
    ),
    _Habit("failure", "no_hidden_failure", {}, "no response speaks of success after a failure"),
    _Habit("text", "no_text_with_calls", {}, "a response that calls tools says nothing besides"),
)


def mine_habits(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield the habits that the sessions could break."""
    about = {
        ACTS: [session for session in facts.sessions if any(acts(call.tool) and call.args for call in session.calls)],
        ANY: [session for session in facts.sessions if any(call.args for call in session.calls)],
        "": [session for session in facts.sessions if session.calls],
    }
    calls = [call for session in facts.sessions for call in session.calls]
    places: dict[str, set[tuple[str, ...]]] = {
        ACTS: {(call.tool, argument) for call in calls if acts(call.tool) for argument in call.args},
        ANY: {(call.tool, argument) for call in calls for argument in call.args},
        "": {(call.tool,) for call in calls if acts(call.tool)},
    }
    for habit in _HABITS:
        sessions = about["".join(habit.tools)]
        tasks = sum(session.weight for session in sessions)
        if tasks >= FEWEST:
            yield RuleCandidate(
                id=rule_id("habit", habit.name),
                kind=habit.kind,
                params=habit.params,
                words=habit.words,
                tools=habit.tools,
                support=len(sessions),
                tasks=tasks,
                surprise=0.0,
                places=max(1, len(places["".join(habit.tools)])),
                is_guess=True,
                covers=habit.covers,
            )
