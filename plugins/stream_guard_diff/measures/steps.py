"""Measures of steps that were left out: consent that nobody gave, and calls that nearly always come before."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_guard import RecordedTurn
from stream_guard_diff.measures.items import ItemTable, SessionItem, in_spreads, judge_by_others, surprise
from stream_guard_diff.trails import SessionTrail, TrailStep, UserStep

# What a call looks like that nobody agreed to: learned from the sessions themselves, by words of any language.
#
# Of each call right after an exchange with the user a twin is made, which has only what stood before that exchange.
# Words tell calls from twins. The more a call looks like a twin, the more likely its question was left out.

_WORD: Final = re.compile(r"[^\W_]+|\?")
_LONGEST_EXCHANGE: Final = (1_500, 400)  # characters of an answer, from its end, and of a message, from its beginning
_SUPPORT: Final = 4  # calls and twins that must have a word
_MOST_WORDS: Final = 600
_MOST_OF_ONE: Final = 50  # calls of one session: a long one must not take all the time
_MOST_CALLS: Final = 10_000  # beyond, nothing is learned: so many calls show a change without it
_FEWEST: Final = 8  # calls, and twins, from which on anything can be learned
_SHRINK: Final = 60.0  # holds the weights of words down; from 30 to 120 the power is the same
_IN_COMMON: Final = 10.0  # so much that shrinking hardly touches it
_FAULTY: Final = 0.3  # the share of faulty calls for which the evidence is the best one

Matrix = NDArray[np.float64]


class Exchange(NamedTuple):
    """What the agent said, and what the user said to that."""

    answer: str = ""
    message: str = ""

    def words(self) -> set[str]:
        """Return the words of both, marked by who said them."""
        last, first = self.answer[-_LONGEST_EXCHANGE[0] :].lower(), self.message[: _LONGEST_EXCHANGE[1]].lower()
        return {f"a {word}" for word in _WORD.findall(last)} | {f"u {word}" for word in _WORD.findall(first)}


class Agreed(NamedTuple):
    """The exchange before a call, and the one before that, where the first could have been left out."""

    exchange: Exchange
    earlier: Exchange | None


def weigh_consent(sessions: Sequence[Sequence[Agreed]]) -> list[float]:
    """Return, for each session, how much its calls look like ones whose exchange was left out; usual ones are near 0.

    A session is judged by what the others teach. Which side it is on is not read.
    """
    owners, is_twin, words = _examples(sessions)
    twins = int(is_twin.sum())
    if min(twins, len(words) - twins) < _FEWEST or len(words) > _MOST_CALLS:
        return [0.0] * len(sessions)
    scores = judge_by_others(_table(words), is_twin, owners, len(sessions), _SHRINK)
    # As in a mixture: a call that surely is fine says little, one that surely is not says much.
    says = np.log(1 - _FAULTY + _FAULTY * np.exp(np.clip(2 * scores, -6.0, 6.0)))
    own = ~is_twin
    calls = np.bincount(owners[own], minlength=len(sessions))
    total = np.bincount(owners[own], weights=says[own], minlength=len(sessions))
    evidence: list[float] = (total / np.maximum(calls, 1)).tolist()
    return evidence


def _examples(sessions: Sequence[Sequence[Agreed]]) -> tuple[NDArray[np.intp], NDArray[np.bool_], list[set[str]]]:
    owners: list[int] = []
    is_twin: list[bool] = []
    words: list[set[str]] = []
    for number, calls in enumerate(sessions):
        for call in calls[:_MOST_OF_ONE]:
            for exchange in call:
                if exchange is not None:
                    owners.append(number)
                    is_twin.append(exchange is not call.exchange)
                    words.append(exchange.words())
    return np.array(owners, dtype=np.intp), np.array(is_twin, dtype=np.bool_), words


def _table(words: Sequence[set[str]]) -> Matrix:
    """Return a row for each example, a column for each word that enough have, and one for what all have in common."""
    support = Counter(word for found in words for word in found)
    known = sorted((word for word in support if support[word] >= _SUPPORT), key=lambda word: (-support[word], word))
    columns = {word: column for column, word in enumerate(known[:_MOST_WORDS])}
    table = np.zeros((len(words), len(columns) + 1))
    table[:, -1] = _IN_COMMON
    for row, found in enumerate(words):
        table[row, [columns[word] for word in found if word in columns]] = 1.0
    return table


# Measures of steps that were left out: what nearly always comes before a call, and did not.

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
