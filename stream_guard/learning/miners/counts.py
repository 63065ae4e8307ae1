"""How often a tool is called at most, in a session and for one record: ``max_calls``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from stream_guard.learning.candidates import FEWEST_FOR_BOUND, RuleCandidate, edge, rule_id
from stream_guard.learning.classes import ACTS, ANY, acts, in_id, in_words
from stream_guard.learning.facts import Facts, SessionFacts


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
