"""Which sessions are about the same: what users asked for, compared by words, and the best way to pair them all."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import log, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_guard_diff.trails import SessionTrail

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
