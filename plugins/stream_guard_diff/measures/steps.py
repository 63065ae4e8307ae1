"""Measures of steps that were left out: what nearly always comes before a call, and did not."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from stream_guard import RecordedTurn
from stream_guard_diff.measures.consent import Agreed, Exchange, weigh_consent
from stream_guard_diff.measures.items import ItemTable, SessionItem, in_spreads, surprise
from stream_guard_diff.trails import SessionTrail, TrailStep, UserStep

WAITS: Final = 0.5  # a tool that is called after the user's yes as often as this waits for it
NEEDED: Final = 0.9  # a tool that is called before another as often as this is a step towards it
ENOUGH: Final = 8  # calls, or sessions, from which on that can be told
_WORDED: Final = 0.5  # how much the words of a consent count beside whether there is one
_MOST_TOOLS: Final = 60
_LONGEST: Final = 4_000
BEGINNING: Final = 80  # of a message: a yes comes first
YES: Final = re.compile(
    r"\b(yes|yep|yeah|ok|okay|sure|correct|fine|perfect|absolutely|proceed|go ahead|go with|confirm|confirmed|please do"
    r"|i agree|that['\u2019]s right|sounds (good|fine|great)|that works|do it)\b"
)
ASKS: Final = re.compile(
    r"\b(confirm|confirmation|proceed|go ahead|yes|shall i|should i|would you like|do you want|correct|agree"
    r"|are you sure|is (that|this|everything) (right|ok|okay))\b"
)


def measure_steps(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axis skipped_steps; what is usual is learned from the sessions of both sides."""
    rows = [list(_openings(trail)) for trail in trails]
    _add_unheard(rows, table)
    _add_unasked(rows, table)
    _add_missing_calls(trails, table)


class Opening(NamedTuple):
    """A call, and what stands before it."""

    tool: str
    heard: bool  # whether the user has said anything
    asked: bool  # whether the answer before the user's last message asks for a yes
    agreed: bool  # whether that message is one
    since: tuple[str, ...]  # the tools that were called after it
    answers: tuple[bool, ...]  # of the user since the call before: which of them are a yes to a question
    said: Agreed  # in which words

    def lacks(self, waiting: frozenset[str]) -> int:
        """Return how little of a consent there is, at least 1: of a question, a yes, and nothing else in between.

        Calls that wait as well may come in between: one yes is often for several.
        """
        return 1 + (not self.asked) + (not self.agreed) + (not waiting.issuperset(self.since))


def _openings(trail: SessionTrail) -> Iterator[Opening]:
    answer = ""
    heard = asked = agreed = False
    since: list[str] = []
    answers: list[bool] = []
    exchange, earlier = Exchange(), None
    before: TrailStep | None = None
    for step in trail.steps:
        if isinstance(step, UserStep):
            heard, asked = heard or bool(step.text), bool(ASKS.search(answer))
            agreed = bool(YES.search(step.text[:BEGINNING].lower()))
            # An answer without calls, and the user's message to it, are what an agent in a hurry leaves out.
            earlier = exchange if isinstance(before, RecordedTurn) and not before.calls else None
            exchange = Exchange(answer, step.text)
            answer, since = "", []
            answers.append(asked and agreed)
        elif isinstance(step, RecordedTurn):
            for call in step.calls:
                said = Agreed(exchange, earlier)
                yield Opening(call.tool, heard, asked, agreed, tuple(since), tuple(answers), said)
                since, answers, earlier = [*since, call.tool][-_MOST_TOOLS:], [], None
            if step.text:
                answer = step.text[-_LONGEST:].lower()
        before = step


def _that_wait(rows: Sequence[Sequence[Opening]], waits: Callable[[Opening], bool], often: float) -> frozenset[str]:
    """Return the tools that are called in a certain way at least so often."""
    seen = Counter(opening.tool for row in rows for opening in row)
    waited = Counter(opening.tool for row in rows for opening in row if waits(opening))
    return frozenset(tool for tool, count in seen.items() if count >= ENOUGH and waited[tool] >= often * count)


def _add_unheard(rows: Sequence[Sequence[Opening]], table: ItemTable) -> None:
    """In any language: a call that nearly always comes right after a message of the user, and did not."""
    waiting = _that_wait(rows, lambda opening: opening.heard and not opening.since, NEEDED)
    hurried = [any(opening.tool in waiting and opening.since for opening in row) for row in rows]
    says = "makes a call without hearing the user first, that nearly always waits"
    table.add(SessionItem("skipped_steps", says, 1), hurried)


def _missing_consent(row: Sequence[Opening], waiting: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Yield each call that waits, and how much of a consent it lacks: nothing where a yes was given since the last one.

    A yes counts though other talk came after it, and calls that do not wait: people agree, then say how to pay. Calls
    that wait and come one after another share what was agreed to before the first.
    """
    agreed = made = False
    for opening in row:
        if opening.answers:
            agreed, made = any(opening.answers) or (agreed and not made), False
        if opening.tool in waiting:
            yield opening.tool, 0 if agreed else opening.lacks(waiting)
            made = True


def _add_unasked(rows: Sequence[Sequence[Opening]], table: ItemTable) -> None:
    """A call that nobody agreed to says the more, the fewer calls of its tool come like that.

    Of several calls in a session the mean counts: who makes many is not more in a hurry. A question may be about
    something else, and a yes may be for another call, so the words count as well, but less: they are less sure.
    """
    waiting = _that_wait(rows, lambda opening: opening.asked and opening.agreed, WAITS)
    lacks = [list(_missing_consent(row, waiting)) for row in rows]
    calls = Counter(tool for row in lacks for tool, _ in row)
    worse = Counter((tool, least) for row in lacks for tool, missing in row for least in range(1, missing + 1))
    evidence = []
    for row in lacks:
        own = Counter(tool for tool, _ in row)
        like_this = Counter((tool, least) for tool, missing in row for least in range(1, missing + 1))
        found = [
            surprise(worse[tool, missing] - like_this[tool, missing], calls[tool] - own[tool]) if missing else 0.0
            for tool, missing in row
        ]
        evidence.append(fmean(found) if found else 0.0)
    worded = weigh_consent([[opening.said for opening in row if opening.tool in waiting] for row in rows])
    says = "makes a call without a question and a yes before it, that usually waits for both"
    table.add(
        SessionItem("skipped_steps", says, 1),
        [value > 0 for value in evidence],
        evidence=(in_spreads(evidence) + _WORDED * in_spreads(worded)).tolist(),
    )


def _add_missing_calls(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    orders: list[dict[str, set[str]]] = []
    for trail in trails:
        earlier: dict[str, set[str]] = {}
        seen: set[str] = set()
        for turn in trail.recording.turns:
            for call in turn.calls:
                earlier.setdefault(call.tool, set(seen))
                seen.add(call.tool)
        orders.append(earlier)
    sessions: Counter[str] = Counter(tool for earlier in orders for tool in earlier)
    before: defaultdict[str, Counter[str]] = defaultdict(Counter)
    frequent = {tool for tool, count in sessions.most_common(_MOST_TOOLS) if count >= ENOUGH}
    for earlier in orders:
        for tool, tools in earlier.items():
            if tool in frequent:
                before[tool].update(tools & frequent)
    needed = {
        tool: {first for first, count in counts.items() if count >= NEEDED * sessions[tool]}
        for tool, counts in before.items()
    }
    lacking = [any(needed.get(tool, set()) - tools for tool, tools in earlier.items()) for earlier in orders]
    table.add(SessionItem("skipped_steps", "leaves out a call that usually comes before another", 1), lacking)
