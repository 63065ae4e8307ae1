"""Which sessions of two recordings belong together: by task, by id, by what was asked, or as two samples."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log, sqrt
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_guard_diff.gate import PairBy
from stream_guard_diff.trails import SessionTrail

# Which sessions are about the same: what users asked for, compared by words, and the best way to pair them all.

Likeness = NDArray[np.float64]

ARGUMENTS: Final = 0.5  # beside what was asked: names and numbers that the agent looked up for it
BEST_UP_TO: Final = (
    400  # sessions of the smaller side; beyond, the most alike are paired first, which is nearly as good
)
_LONGEST: Final = 20_000  # characters of one session that are read for this
_WORDS: Final = re.compile(r"[^\W_]+")


def likeness_of(old: Sequence[SessionTrail], new: Sequence[SessionTrail]) -> Likeness:
    """Return how alike each baseline session is to each candidate session, from 0 to 1; rare words count more."""
    asked = _cosines([trail.asked() for trail in old], [trail.asked() for trail in new])
    given = _cosines([_arguments(trail) for trail in old], [_arguments(trail) for trail in new])
    return (asked + ARGUMENTS * given) / (1 + ARGUMENTS)


def _arguments(trail: SessionTrail) -> str:
    written: list[str] = []
    size = 0
    for turn in trail.recording.turns:
        for call in turn.calls:
            if size > _LONGEST:
                return " ".join(written)
            written.append(json.dumps(call.args, ensure_ascii=False))
            size += len(written[-1])
    return " ".join(written)


def _cosines(old: Sequence[str], new: Sequence[str]) -> Likeness:
    """Return the cosines of the words of texts. A rare word weighs more; one that a single text has matches none."""
    counts = [Counter(_WORDS.findall(text[:_LONGEST].lower())) for text in (*old, *new)]
    postings: defaultdict[str, list[int]] = defaultdict(list)
    for place, words in enumerate(counts):
        for word in words:
            postings[word].append(place)
    total = len(counts)
    weights = {word: log((total + 1) / len(places)) for word, places in postings.items() if len(places) > 1}
    norms = [
        sqrt(sum(((1 + log(count)) * weights[word]) ** 2 for word, count in words.items() if word in weights)) or 1.0
        for words in counts
    ]
    found = np.zeros((len(old), len(new)))
    for word, weight in weights.items():
        places = postings[word]
        rows = [place for place in places if place < len(old)]
        columns = [place for place in places if place >= len(old)]
        if rows and columns:
            left = np.array([(1 + log(counts[place][word])) * weight / norms[place] for place in rows])
            right = np.array([(1 + log(counts[place][word])) * weight / norms[place] for place in columns])
            found[np.ix_(rows, [place - len(old) for place in columns])] += np.outer(left, right)
    return found


def best_pairs(alike: Likeness) -> list[tuple[int, int]]:
    """Return pairs of rows and columns, as many as the shorter side has, that together are most alike."""
    if not alike.size:
        return []
    if alike.shape[0] > alike.shape[1]:
        return [(row, column) for column, row in best_pairs(alike.T)]
    if len(alike) > BEST_UP_TO:
        return _most_alike_first(alike)
    return _assign(alike.max() - alike)


def _most_alike_first(alike: Likeness) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    rows: set[int] = set()
    columns: set[int] = set()
    for place in np.argsort(-alike, axis=None, kind="stable").tolist():
        row, column = divmod(place, alike.shape[1])
        if row not in rows and column not in columns:
            rows.add(row)
            columns.add(column)
            pairs.append((row, column))
            if len(rows) == len(alike):
                break
    return pairs


def _assign(costs: Likeness) -> list[tuple[int, int]]:
    """Solve the assignment problem by shortest augmenting paths (Jonker and Volgenant); no more rows than columns."""
    rows, columns = costs.shape
    row_price, column_price = np.zeros(rows), np.zeros(columns + 1)
    owner = np.full(columns + 1, -1)  # the row that has a column; the last column is where a search starts
    for row in range(rows):
        owner[columns] = row
        at = columns
        shortest = np.full(columns, np.inf)
        came_from = np.full(columns, columns)
        done = np.zeros(columns + 1, dtype=np.bool_)
        while owner[at] >= 0:
            done[at] = True
            free = ~done[:columns]
            reduced = costs[owner[at]] - row_price[owner[at]] - column_price[:columns]
            closer = free & (reduced < shortest)
            shortest[closer] = reduced[closer]
            came_from[closer] = at
            nearest = int(np.where(free, shortest, np.inf).argmin())
            step = shortest[nearest]
            row_price[owner[done]] += step
            column_price[done] -= step
            shortest[free] -= step
            at = nearest
        while at != columns:
            owner[at] = owner[came_from[at]]
            at = int(came_from[at])
    return sorted((int(owner[column]), column) for column in range(columns) if owner[column] >= 0)


# Pairs and strata of sessions.

TASK_LABEL: Final = "scenario"
CHANCE: Final = 0.95  # the share of sessions about different things that are less alike than a pair must be
LEAST_ALIKE: Final = 0.10
MOST_COMPARED: Final = 4_000_000  # pairs of sessions whose content is compared: 2,000 against 2,000
USUAL: Final = 0.3  # as a share of what the middle one of all pairs reaches: less is another task
TRIAL: Final = 0.70  # as alike as this, beside the pair of a task, is a further trial of the task


HowPaired = Literal["label", "id", "content", "only", "position", "samples"]


@dataclass(frozen=True, slots=True)
class Stratum:
    """Sessions that are about the same task: inside it, the sides could have been dealt out the other way round."""

    name: str
    how: HowPaired
    baseline: tuple[int, ...]  # places in the sequences of trails
    candidate: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...] = ()  # who is shown beside whom; further trials have no partner


class LeftOutSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is compared with nothing, and why."""

    session_id: str
    side: Literal["baseline", "candidate"]
    why: str


@dataclass(frozen=True, slots=True)
class Pairing:
    """All strata, and what is in none."""

    strata: tuple[Stratum, ...]
    left_out: tuple[tuple[int, int, str], ...] = ()  # side (0 the baseline), place, why


@dataclass(slots=True)
class _Unpaired:
    """The sessions of both sides that have no stratum yet."""

    trails: tuple[Sequence[SessionTrail], Sequence[SessionTrail]]
    places: tuple[list[int], list[int]]
    left_out: list[tuple[int, int, str]] = field(default_factory=list)

    def take(self, old: Sequence[int], new: Sequence[int]) -> None:
        for side, taken in enumerate((set(old), set(new))):
            self.places[side][:] = [place for place in self.places[side] if place not in taken]

    def leave_out(self, side: int, place: int, why: str) -> None:
        self.left_out.append((side, place, why))
        self.places[side].remove(place)


def pair_trails(
    old: Sequence[SessionTrail], new: Sequence[SessionTrail], *, by: PairBy = "auto", label: str = TASK_LABEL
) -> Pairing:
    """Return which sessions belong together. A way of pairing takes what the ones before it left."""
    rest = _Unpaired((old, new), (list(range(len(old))), list(range(len(new)))))
    strata: list[Stratum] = []
    if by in ("auto", "label"):
        strata += _by_label(rest, label)
    if by in ("auto", "id"):
        strata += _by_id(rest)
    if by == "auto" and not strata and len(rest.places[0]) == len(rest.places[1]) == 1:
        strata.append(_stratum(rest, "the only session", "only", [0], [0]))
    if by in ("auto", "content"):
        strata += _by_content(rest)
    if by == "position":
        for place in range(min(len(old), len(new))):
            strata.append(_stratum(rest, f"number {place + 1}", "position", [place], [place]))
    if by in ("auto", "none"):
        strata += _as_samples(rest, strata)
    _leave_out_the_rest(rest)
    return Pairing(tuple(strata), tuple(rest.left_out))


def _by_label(rest: _Unpaired, label: str) -> Iterator[Stratum]:
    """Sessions with the same task. A task that one side lacks is left out, unless no task is on both sides."""
    tasks: tuple[defaultdict[str, list[int]], ...] = (defaultdict(list), defaultdict(list))
    for side, places in enumerate(rest.places):
        for place in places:
            if task := rest.trails[side][place].labels.get(label):
                tasks[side][task].append(place)
    shared = [task for task in tasks[0] if task in tasks[1]]
    if not shared:
        return
    for side, word in ((0, "candidate"), (1, "baseline")):
        for task, places in tasks[side].items():
            if task not in tasks[1 - side]:
                for place in places:
                    rest.leave_out(side, place, f"the {word} has no session with {label} {task!r}")
    for task in shared:
        yield from _split_by_id(rest, f"{label} {task}", tasks[0][task], tasks[1][task])


def _split_by_id(rest: _Unpaired, name: str, old: Sequence[int], new: Sequence[int]) -> Iterator[Stratum]:
    """Inside a task, sessions with the same id are a stratum of their own: they are still more alike."""
    by_id = {rest.trails[1][place].session_id: place for place in new}
    same = [(place, by_id[key]) for place in old if (key := rest.trails[0][place].session_id) in by_id]
    for first, second in same:
        yield _stratum(rest, name, "label", [first], [second])
    taken_old, taken_new = {first for first, _ in same}, {second for _, second in same}
    old, new = [place for place in old if place not in taken_old], [place for place in new if place not in taken_new]
    if old and new:
        yield _stratum(rest, name, "label", old, new)
    for side, left in ((0, old if not new else ()), (1, new if not old else ())):
        for place in left:
            rest.leave_out(side, place, f"the other side has fewer sessions with {name}")


def _by_id(rest: _Unpaired) -> Iterator[Stratum]:
    by_id = {rest.trails[1][place].session_id: place for place in rest.places[1]}
    for place in list(rest.places[0]):
        name = rest.trails[0][place].session_id
        if name in by_id:
            yield _stratum(rest, name, "id", [place], [by_id[name]])


def _by_content(rest: _Unpaired) -> Iterator[Stratum]:
    """The best pairs of sessions in which users asked for the same; then further trials join the pair of their task."""
    old, new = ([place for place in rest.places[side] if rest.trails[side][place].asked().strip()] for side in (0, 1))
    if not old or not new or len(old) * len(new) > MOST_COMPARED:
        return
    alike = likeness_of([rest.trails[0][place] for place in old], [rest.trails[1][place] for place in new])
    pairs = best_pairs(alike)
    least = _least_alike(alike, pairs)
    pairs = [(row, column) for row, column in pairs if alike[row, column] >= least]
    members = {pair: ([pair[0]], [pair[1]]) for pair in pairs}
    for row in sorted(set(range(len(old))) - {row for row, _ in pairs}):
        if pair := _task_of(alike[row], pairs, alike, least, side=1):
            members[pair][0].append(row)
    for column in sorted(set(range(len(new))) - {column for _, column in pairs}):
        if pair := _task_of(alike[:, column], pairs, alike, least, side=0):
            members[pair][1].append(column)
    for rows, columns in members.values():
        name = rest.trails[0][old[rows[0]]].session_id
        yield _stratum(rest, name, "content", [old[row] for row in rows], [new[column] for column in columns])


def _least_alike(alike: Likeness, pairs: Sequence[tuple[int, int]]) -> float:
    """Return how alike a pair must be: more than nearly all that were not paired, and not far less than most pairs."""
    others = np.ones(alike.shape, dtype=np.bool_)
    for row, column in pairs:
        others[row, column] = False
    usual = USUAL * float(np.median([alike[pair] for pair in pairs]))
    return max(LEAST_ALIKE, usual, float(np.quantile(alike[others], CHANCE)) if others.any() else 0.0)


def _task_of(
    likenesses: Likeness, pairs: Sequence[tuple[int, int]], alike: Likeness, least: float, *, side: int
) -> tuple[int, int] | None:
    """Return the pair whose member on the other side is so alike that this must be a further trial of its task."""
    near = [pair for pair in pairs if likenesses[pair[side]] >= max(least, TRIAL * alike[pair])]
    return max(near, key=lambda pair: likenesses[pair[side]], default=None)


def _as_samples(rest: _Unpaired, strata: Sequence[Stratum]) -> Iterator[Stratum]:
    """What no way could pair is compared as two samples, unless most was paired: then it is about other tasks."""
    old, new = list(rest.places[0]), list(rest.places[1])
    paired = sum(min(len(stratum.baseline), len(stratum.candidate)) for stratum in strata)
    if old and new and paired < min(len(old), len(new)):
        yield _stratum(rest, "all sessions" if not strata else "the other sessions", "samples", old, new)


def _leave_out_the_rest(rest: _Unpaired) -> None:
    for side, word in ((0, "candidate"), (1, "baseline")):
        for place in list(rest.places[side]):
            rest.leave_out(side, place, f"nothing in the {word} belongs to it")


def _stratum(rest: _Unpaired, name: str, how: HowPaired, old: Sequence[int], new: Sequence[int]) -> Stratum:
    rest.take(old, new)
    return Stratum(name, how, tuple(old), tuple(new), tuple(_partners(rest, how, old, new)))


def _partners(rest: _Unpaired, how: HowPaired, old: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]]:
    """Return who is shown beside whom: of several trials, those that are most alike. Samples have no partners."""
    if how == "samples":
        return []
    if len(old) == 1 and len(new) == 1:
        return [(old[0], new[0])]
    if len(old) * len(new) > MOST_COMPARED:
        return list(zip(old, new, strict=False))  # trials of one task: any of them may stand beside any other
    alike = likeness_of([rest.trails[0][place] for place in old], [rest.trails[1][place] for place in new])
    return [(old[row], new[column]) for row, column in best_pairs(alike)]
