"""Which call comes before which: ``must_call_before``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from stream_guard.learning.candidates import FEWEST, MOST_BROKEN, RuleCandidate, Shares, rule_id, surprise
from stream_guard.learning.facts import ACTS, Facts, SessionFacts, acts, in_id, in_words, is_grave

_BY_ORDER: Final = 0.5  # of two calls that are made anyway, either comes first


class _Chance:
    """How often a tool comes before another one by chance: in how many tasks it is called, and how early.

    Of several tools that open sessions, one comes before whatever is called in the tasks that it happens to open. Where
    nearly all tasks call a tool, that it comes first is a habit and no chance.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._before: defaultdict[str, float] = defaultdict(lambda: _BY_ORDER)
        self._others: defaultdict[str, float] = defaultdict(lambda: 1.0)

    def add(self, called: Sequence[str], weight: float) -> None:
        """Count the tools of a session, in the order of their first calls."""
        for place, tool in enumerate(called):
            self._before[tool] += weight * (len(called) - 1 - place)
            self._others[tool] += weight * (len(called) - 1)

    def of(self, tool: str) -> float:
        """Return the share of tasks in which it comes before another tool anyway."""
        share = self._shares.of(tool)
        return share * (_BY_ORDER if share >= 1 - MOST_BROKEN else self._before[tool] / self._others[tool])


def mine_orders(facts: Facts) -> Iterator[RuleCandidate]:
    """Yield the orders that sessions keep, and those about the same record, which say more."""
    shares = Shares(facts)
    listed = set(shares.common())
    before: defaultdict[tuple[str, str], float] = defaultdict(float)
    chance = _Chance(shares)
    for session in facts.sessions:
        called = list(dict.fromkeys(call.tool for call in session.calls if call.tool in listed))
        chance.add(called, session.weight)
        for place, second in enumerate(called):
            for first in called[:place]:
                before[first, second] += session.weight
    kept = {pair: count for pair, count in before.items() if count >= (1 - MOST_BROKEN) * shares.tasks[pair[1]]}
    for (first, second), count in kept.items():
        if not _follows((first, second), kept):
            yield _order(facts, shares, chance, first, second, count)
    yield from _same_record(facts, chance)


def _order(facts: Facts, shares: Shares, chance: _Chance, first: str, second: str, kept: float) -> RuleCandidate:
    return RuleCandidate(
        id=rule_id("before", first, second),
        kind="must_call_before",
        params={"first": facts.names.pattern(first), "second": facts.names.pattern(second)},
        words=f"{first} comes before {second}",
        tools=(second,),
        support=shares.sessions[second],
        tasks=shares.tasks[second],
        surprise=surprise(kept, shares.tasks[second], chance.of(first)),
    )


def _follows(pair: tuple[str, str], kept: dict[tuple[str, str], float]) -> bool:
    """Whether an order follows from two others: with a before b and b before c, a before c says nothing more."""
    first, second = pair
    between = {right for left, right in kept if left == first} & {left for left, right in kept if right == second}
    # Two tools that are each other's predecessor would explain each other away; such a pair explains nothing.
    return any((middle, first) not in kept and (second, middle) not in kept for middle in between - {first, second})


def _same_record(facts: Facts, chance: _Chance) -> Iterator[RuleCandidate]:
    """Yield the orders in which both calls have the same value of an argument."""
    kept: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    asked: defaultdict[tuple[str, str], float] = defaultdict(float)
    sessions: defaultdict[tuple[str, str], int] = defaultdict(int)
    for session in facts.sessions:
        for (tool, argument), firsts in _looked_up(session).items():
            asked[tool, argument] += session.weight
            sessions[tool, argument] += 1
            for first in firsts:
                kept[first, tool, argument] += session.weight
    for (first, second, argument), count in kept.items():
        tasks = asked[second, argument]
        tools = [tool for tool, other in asked if other == argument and tool != ACTS and acts(tool)]
        if tasks < FEWEST or count < (1 - MOST_BROKEN) * tasks or (second == ACTS and len(tools) == 1):
            continue
        yield RuleCandidate(
            id=rule_id("before", first, in_id(second), "same", argument),
            kind="must_call_before",
            params={
                "first": facts.names.pattern(first),
                "second": facts.names.pattern(second),
                "same_arg": argument,
                "first_must_succeed": True,
            },
            words=f"{first} with the same {argument} comes before {in_words(second)}",
            tools=(second,),
            support=sessions[second, argument],
            tasks=tasks,
            surprise=surprise(count, tasks, chance.of(first)),
            covers=_covered(first, second, argument, tools),
            extra={"when": {"path": f"tool.args.{argument}", "op": "exists"}},
            places=len(tools) if second == ACTS else 1,
        )


def _covered(first: str, second: str, argument: str, acting: Sequence[str]) -> tuple[str, ...]:
    """Return the orders that say no more: of the same two tools, or of one tool where this is about all that act."""
    if second != ACTS:
        return (rule_id("before", first, second),)
    same = [rule_id("before", first, tool, "same", argument) for tool in acting]
    return (*same, *(rule_id("before", first, tool) for tool in acting))


def _looked_up(session: SessionFacts) -> dict[tuple[str, str], set[str]]:
    """Return by tool and argument the tools that were called with the same value before each of its calls."""
    found: dict[tuple[str, str], set[str]] = {}
    for call in session.calls:
        for argument, value in call.args.items():
            if isinstance(value, str):
                firsts = {link.lookup for link in call.links if link.argument == argument == link.lookup_argument}
                for tool in (call.tool, ACTS) if acts(call.tool) else (call.tool,):
                    key = (tool, argument)
                    found[key] = found[key] & firsts if key in found else firsts
    return found


# Which call never comes after which: ``no_sequence``.


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


# Which calls wait for the user's yes: ``must_confirm_before``.


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
