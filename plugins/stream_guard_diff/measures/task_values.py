"""Measures of values that belong to a task: where they stood, which look wrong, and how odd that makes a session."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, Literal, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from stream_guard import RecordedTurn, ToolPattern
from stream_guard_diff.measures.arguments import ArgumentPlace, leaves_of, written
from stream_guard_diff.measures.items import ItemTable, SessionItem, in_spreads, judge_by_others, surprise
from stream_guard_diff.trails import SessionTrail, UserStep

# Where the values of a session stand before they are given to a call, and who wrote them there.

CONSEQUENTIAL: Final = ToolPattern(["@write", "@money", "@egress"])
_MOST_VALUES: Final = 100  # of one session
_LONGEST: Final = 200_000  # characters of one step that are read
_LONGEST_WORD: Final = 40
_WORD: Final = re.compile(r"[\w#@.+:/-]*\w")
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")

Writer: TypeAlias = Literal["user", "agent", "result", "call"]


class PlacedValue(NamedTuple):
    """A value that a call with consequences is given."""

    place: ArgumentPlace
    text: str
    at: int  # the steps before it are those that the agent had seen
    beside: tuple[str, ...]  # the other values of the call


class ValuePlaces:
    """The steps of a session, the words in each, and the values of its calls with consequences."""

    def __init__(self, trail: SessionTrail) -> None:
        self.writers: list[Writer] = []
        self.values: list[PlacedValue] = []
        self._steps: defaultdict[str, list[int]] = defaultdict(list)  # of a word
        self._alike: defaultdict[str, set[str]] = defaultdict(set)  # words with a digit, by their form
        for step in trail.steps:
            if isinstance(step, RecordedTurn):
                self._add_turn(step)
            else:
                self._add("user" if isinstance(step, UserStep) else "result", written(step))

    def _add_turn(self, turn: RecordedTurn) -> None:
        # What the agent says beside a call is no evidence for it: both come from one thought.
        for call in turn.calls:
            if CONSEQUENTIAL.matches(call.tool):
                given = list(leaves_of(call.args))[: _MOST_VALUES - len(self.values)]
                texts = dict.fromkeys(text for _, text in given)
                self.values += [
                    PlacedValue((call.tool, name), text, len(self.writers), tuple(one for one in texts if one != text))
                    for name, text in given
                ]
        self._add("agent", turn.text)
        for call in turn.calls:
            self._add("call", json.dumps(call.args, ensure_ascii=False))

    def _add(self, writer: Writer, text: str) -> None:
        number = len(self.writers)
        self.writers.append(writer)
        for word in set(_WORD.findall(text[:_LONGEST].lower())):
            self._steps[word].append(number)
            if len(word) <= _LONGEST_WORD and _DIGIT.search(word):
                self._alike[form_of(word)].add(word)

    def steps_with(self, text: str, before: int) -> Sequence[int]:
        """Return the steps before another one in which all words of a text stand."""
        words = _WORD.findall(text.lower())
        if not words:
            return ()
        listed = sorted((self._steps.get(word, []) for word in words), key=len)
        found = listed[0][: bisect_left(listed[0], before)]
        for steps in listed[1:]:
            others = set(steps)
            found = [step for step in found if step in others]
        return found

    def siblings(self, text: str, before: int) -> list[str]:
        """Return other words of the form of a value, if that has a digit, which stood before a step."""
        value = text.lower()
        alike = self._alike.get(form_of(value), set()) - {value}
        return sorted(word for word in alike if self._steps[word][0] < before)


def form_of(value: str) -> str:
    """Return where the letters and the digits of a value are."""
    return _LETTER.sub("a", _DIGIT.sub("9", value))


# What a wrong value of a call with consequences looks like: learned from the sessions themselves.
#
# Of each value twins are made: others of its form that stood in the session, and one that other tasks give the
# argument. Who wrote a value before the call, how lately, and what stood beside it tell values from twins. Where one of
# the twins looks far more like a value than the value does, it is likely a wrong one. Where another run of the task
# gives another value, each of the two is held against the other by the same marks. Which side a session is on is not
# read.

_TWINS: Final = 6  # of one value that stood in the session, those that stood in most steps
_RIVALS: Final = 4  # of one value, that other runs of the task give
_SIBLINGS: Final = 50  # others of its form that a value is compared with
_SUPPORT: Final = 4  # values and twins that must have a mark
_USUAL: Final = 8  # values of an argument from which on its own habits are learned
_FEWEST: Final = 20  # values, and twins, from which on anything can be learned
_MOST: Final = 10_000  # values and twins; beyond, nothing is learned
_SHRINK: Final = 10.0  # holds the weights of marks down; from 10 to 30 the power is the same
_SHORT: Final = 2  # characters up to which a value stands everywhere


class ValueEvidence(NamedTuple):
    """How much more than a value another one looks right: the most of a session."""

    of_all: float = 0.0  # a twin, at least 0
    of_unshared: float = 0.0  # beside values that no other run of the task gives: a twin or a rival, at least 0
    of_rivals: float = 0.0  # beside those too: a rival; under 0 where the value looks more right


class _Example(NamedTuple):
    """A value, or another one for its place, the marks by which they are told apart, and whether others give it."""

    session: int
    value: int  # its number in the session; twins and rivals have that of their value
    role: Literal["value", "twin", "rival"]  # a rival is what another run of the task gives
    place: ArgumentPlace
    marks: frozenset[str]
    is_shared: bool  # another run of the task gives the value


def weigh_values(sessions: Sequence[ValuePlaces], mates: Sequence[Sequence[int]]) -> list[ValueEvidence]:
    """Return the evidence of each session; ``mates`` are the others with its task.

    A session is judged by what the others teach.
    """
    examples = list(_examples(sessions, mates))
    roles = Counter(one.role for one in examples)
    if min(roles["twin"], roles["value"]) < _FEWEST or len(examples) > _MOST:
        return [ValueEvidence()] * len(sessions)
    owners = np.array([one.session for one in examples], dtype=np.intp)
    is_twin = np.array([one.role == "twin" for one in examples], dtype=np.bool_)
    is_taught = np.array([one.role != "rival" for one in examples], dtype=np.bool_)
    scores = judge_by_others(_table(examples), is_twin, owners, len(sessions), _SHRINK, is_taught).tolist()
    best: dict[tuple[int, int, str], float] = {}  # of each value, the score of the twin and the rival that look best
    for one, score in zip(examples, scores, strict=True):
        key = one.session, one.value, one.role
        best[key] = min(score, best.get(key, score))
    evidence = [ValueEvidence()] * len(sessions)
    for one in examples:
        if one.role == "value":
            evidence[one.session] = _more(evidence[one.session], one, best)
    return evidence


def _more(before: ValueEvidence, one: _Example, best: dict[tuple[int, int, str], float]) -> ValueEvidence:
    """Return the evidence of a session, with that of one more value."""
    score = best[one.session, one.value, one.role]
    twin, rival = (score - best.get((one.session, one.value, role), score) for role in ("twin", "rival"))
    if one.is_shared:
        return before._replace(of_all=max(before.of_all, twin))
    return ValueEvidence(
        max(before.of_all, twin),
        max(before.of_unshared, twin, rival),
        max(before.of_rivals, rival, key=abs),
    )


def _examples(sessions: Sequence[ValuePlaces], mates: Sequence[Sequence[int]]) -> Iterator[_Example]:
    given = [_given(session) for session in sessions]
    givers: defaultdict[ArgumentPlace, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for number, row in enumerate(given):
        for place, texts in row.items():
            for text in texts:
                givers[place][text].add(number)
    for number, session in enumerate(sessions):
        own = {number, *mates[number]}
        distinct = {(one.place, one.text): one for one in session.values if len(one.text) > _SHORT}
        for count, value in enumerate(distinct.values()):
            foreign = [text for text, by in givers[value.place].items() if own.isdisjoint(by)]
            is_elsewhere = not givers[value.place][value.text] <= own
            if not is_elsewhere and not session.steps_with(value.text, value.at):
                continue  # a text of the agent's own, or worked out: whether that is odd, odd_values asks
            siblings = _likeliest(session, value)
            theirs = [given[mate][value.place] for mate in mates[number] if value.place in given[mate]]
            is_shared = any(value.text in row for row in theirs)
            rivals = set().union(*theirs) - given[number][value.place]
            others: dict[Literal["value", "twin", "rival"], list[str]] = {
                "value": [value.text],
                "twin": [*siblings, *_pick(foreign, value.text, 1)],
                "rival": sorted(text for text in rivals if len(text) > _SHORT)[:_RIVALS],
            }
            for role, listed in others.items():
                for text in listed:
                    yield _Example(number, count, role, value.place, frozenset(_marks(session, value, text)), is_shared)


def _likeliest(session: ValuePlaces, value: PlacedValue) -> list[str]:
    """Return the others of a value's form that stand in most steps before the call."""
    listed = session.siblings(value.text, value.at)
    return sorted(listed, key=lambda text: (-len(session.steps_with(text, value.at)), text))[:_TWINS]


def _pick(texts: Iterable[str], value: str, count: int) -> list[str]:
    """Return some texts, the same ones whatever the order of the sessions is."""
    return sorted(texts, key=lambda text: (crc32(f"{value}\0{text}".encode("utf-8", "replace")), text))[:count]


def _given(session: ValuePlaces) -> dict[ArgumentPlace, set[str]]:
    found: defaultdict[ArgumentPlace, set[str]] = defaultdict(set)
    for value in session.values:
        found[value.place].add(value.text)
    return dict(found)


def _marks(session: ValuePlaces, value: PlacedValue, text: str) -> Iterator[str]:
    """Yield who wrote a text before the call, how lately, and which other values of the call stand beside it."""
    steps = session.steps_with(text, value.at)
    writers: set[str] = {session.writers[step] for step in steps}
    yield from writers or {"nowhere"}
    if not writers & {"user", "agent"}:
        yield "unspoken"
    for writer in ("user", "agent"):
        last = next((step for step in reversed(range(value.at)) if session.writers[step] == writer), None)
        if last is not None and last in steps:
            yield f"last words of the {writer}"
    beside = [set(session.steps_with(one, value.at)) for one in value.beside if len(one) > _SHORT]
    together = sum(not shared.isdisjoint(steps) for shared in beside)
    if beside:
        yield "alone" if not together else "beside all" if together == len(beside) else "beside some"
    siblings = [session.steps_with(one, value.at) for one in session.siblings(text, value.at)[:_SIBLINGS]]
    if siblings:
        yield _compared("count", len(steps), max(map(len, siblings)))
        yield _compared("latest", steps[-1] if steps else -1, max(one[-1] for one in siblings if one))


def _compared(what: str, mine: int, best: int) -> str:
    return f"{what} {'over' if mine > best else 'under' if mine < best else 'as'} others"


def _table(examples: Sequence[_Example]) -> NDArray[np.float64]:
    """Return a row for each example: its marks, pairs of them, and those of its argument where it has habits."""
    support = Counter(one.place for one in examples if one.role == "value")
    rows: list[list[tuple[str, ...]]] = []
    for one in examples:
        marks = sorted(one.marks)
        of_place = [(*one.place, mark) for mark in marks] if support[one.place] >= _USUAL else []
        rows.append([*((mark,) for mark in marks), *combinations(marks, 2), *of_place])
    taught = (names for names, one in zip(rows, examples, strict=True) if one.role != "rival")
    counts = Counter(name for names in taught for name in names)
    columns = {name: column for column, name in enumerate(sorted(one for one in counts if counts[one] >= _SUPPORT))}
    table = np.zeros((len(rows), len(columns) + 1))
    table[:, -1] = 10.0  # so much that shrinking hardly touches what all have in common
    for row, names in enumerate(rows):
        table[row, [columns[name] for name in names if name in columns]] = 1.0
    return table


# Measures of values that belong to a task: what a call with consequences is given, and where that came from.
#
# Nobody says which value is right for a task. One is odd that came about as wrong ones do, or that no other run of the
# task gives where these agree on another.

AGREE: Final = 2  # other runs of the task that give the same value, from which on another one is odd
MOST: Final = 0.5  # share of the other runs that must give it
_LOOKS_WRONG: Final = 0.3  # from which evidence on a session is counted

Given = Mapping[ArgumentPlace, frozenset[str]]


def measure_task_values(trails: Sequence[SessionTrail], table: ItemTable) -> None:
    """Add the axis task_values."""
    places = [ValuePlaces(trail) for trail in trails]
    mates = table.mates()
    found = weigh_values(places, mates)
    rows = [_values_of(one) for one in places]
    odd = [_oddness(rows[row], [rows[mate] for mate in others]) for row, others in enumerate(mates)]
    says = "gives a call with consequences a value that looks wrong, or that no other run of its task gives"
    table.add(
        SessionItem("task_values", says, 1),
        [
            strange > 0 or max(one.of_all, one.of_rivals) >= _LOOKS_WRONG
            for strange, one in zip(odd, found, strict=True)
        ],
        evidence=np.sum([in_spreads(values) for values in (*zip(*found, strict=True), odd)], axis=0).tolist(),
    )


def _values_of(places: ValuePlaces) -> Given:
    """Return what a session gives each argument of its calls with consequences."""
    found: dict[ArgumentPlace, set[str]] = {}
    for value in places.values:
        found.setdefault(value.place, set()).add(value.text)
    return {place: frozenset(values) for place, values in found.items()}


def _oddness(mine: Given, others: Sequence[Given]) -> float:
    """Return how odd the oddest argument is: the more of the other runs agree on what it should be, the more."""
    oddest = 0.0
    for place, values in mine.items():
        theirs = Counter(row[place] for row in others if place in row)
        if not theirs:
            continue
        agreed, count = theirs.most_common(1)[0]
        known = frozenset[str]().union(*theirs)
        if count >= max(AGREE, MOST * theirs.total()) and not values <= known and agreed != values:
            oddest = max(oddest, surprise(0, count))
    return oddest
