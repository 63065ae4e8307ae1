"""What a wrong value of a call with consequences looks like: learned from the sessions themselves.

Of each value twins are made: others of its form that stood in the session, and one that other tasks give the argument.
Who wrote a value before the call, how lately, and what stood beside it tell values from twins. Where one of the twins
looks far more like a value than the value does, it is likely a wrong one. Where another run of the task gives another
value, each of the two is held against the other by the same marks. Which side a session is on is not read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final, Literal, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from stream_guard_diff.measures.arguments import ArgumentPlace
from stream_guard_diff.measures.learning import judge_by_others
from stream_guard_diff.measures.value_places import PlacedValue, ValuePlaces

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
