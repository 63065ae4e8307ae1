"""What chance does: the sides are dealt out anew inside each stratum, and every item is held against that.

Items are corrected together by the least p (Westfall and Young) in two steps: the items of an axis first, then the
axes. So an axis with a hundred items weighs no more than one with two.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import comb
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stream_guard_diff.pairing import Stratum

DEALS: Final = 5_000
_FEWEST: Final = 1_000
_CELLS: Final = 20_000_000  # deals times sessions that are in memory; beyond, there are fewer deals
SEED: Final = 42
_MOST_THINGS: Final = 1_000
_DEALS_AT_ONCE: Final = 500

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Deals:
    """Ways to deal sessions out to the sides. A row times a column of values is the difference of the sides."""

    weights: Matrix  # one row a deal, the first as it was; one column a session
    ways: float  # in which the sessions could have been dealt out

    @property
    def count(self) -> int:
        """How many deals there are, the one that happened included."""
        return len(self.weights)


def deal(strata: Sequence[Stratum], sessions: int, first_candidate: int, *, count: int = DEALS) -> Deals:
    """Return the deal that happened, then as many others as are asked for, drawn the same way every time.

    The candidate's session at place p is row ``first_candidate`` + p. A stratum weighs as much as it can tell:
    one of 3 against 1 more than one of 1 against 1, less than one of 3 against 3.
    """
    count = min(count, max(_FEWEST, _CELLS // max(1, sessions)))
    drawn = np.random.default_rng(SEED)
    weights = np.zeros((count + 1, sessions))
    ways = 1.0
    total = sum(_weight(stratum) for stratum in strata) or 1.0
    by_shape: defaultdict[tuple[int, int], list[Stratum]] = defaultdict(list)
    for stratum in strata:
        by_shape[len(stratum.baseline), len(stratum.candidate)].append(stratum)
    for (before, after), same in by_shape.items():
        ways *= float(comb(before + after, after)) ** len(same)
        weight = before * after / (before + after) / total
        share = np.concatenate([np.full(before, -weight / before), np.full(after, weight / after)])
        for stratum in same:
            members = [*stratum.baseline, *(first_candidate + place for place in stratum.candidate)]
            dealt = drawn.permuted(np.broadcast_to(share, (count, len(share))).copy(), axis=1)
            weights[0, members] = share
            weights[1:, members] = dealt
    return Deals(weights, ways)


def _weight(stratum: Stratum) -> float:
    before, after = len(stratum.baseline), len(stratum.candidate)
    return before * after / (before + after)


def novelty(
    deals: Deals, sets: Sequence[Set[str]], least: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
    """Return, for each deal, by how much more sessions of the candidate have a thing that the other side lacks.

    Beside it, which sessions have one as it happened, and which things those are that only the candidate has. Things
    count that at least ``least`` sessions have.
    """
    dealt = (deals.weights != 0).any(axis=0)
    support: Counter[str] = Counter(name for row, found in enumerate(sets) if dealt[row] for name in found)
    single = {name for name, count in support.items() if count == 1 == least}
    alone = dealt & np.array([not single.isdisjoint(found) for found in sets], dtype=np.bool_)
    names = sorted(
        (name for name, count in support.items() if max(2, least) <= count), key=lambda name: (-support[name], name)
    )[:_MOST_THINGS]
    places = {name: column for column, name in enumerate(names)}
    has = np.zeros((len(sets), len(names)), dtype=np.float32)
    for row in np.flatnonzero(dealt).tolist():
        has[row, [places[name] for name in sets[row] if name in places]] = 1.0
    moved = np.empty(deals.count)
    for start in range(0, deals.count, _DEALS_AT_ONCE):
        weights = deals.weights[start : start + _DEALS_AT_ONCE]
        marked = _only_on_its_side(weights > 0, has) | alone
        moved[start : start + len(weights)] = np.einsum("ij,ij->i", weights, marked)
    happened = deals.weights[0] > 0
    new = {name for row in np.flatnonzero(happened).tolist() for name in sets[row] if name in single or name in places}
    new -= {name for row in np.flatnonzero(dealt & ~happened).tolist() for name in sets[row]}
    column = (_only_on_its_side(deals.weights[:1] > 0, has)[0] | alone).astype(np.float64)
    return np.round(moved, 9), column, sorted(new, key=lambda name: (-support[name], name))


def _only_on_its_side(candidate: NDArray[np.bool_], has: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return, for each deal and session, whether it has a thing that only its own side has."""
    counts = candidate.astype(np.float32) @ has
    total = has.sum(axis=0)
    one_sided = ((counts == total) | (counts == 0)).any(axis=0)
    has, counts, total = has[:, one_sided], counts[:, one_sided], total[one_sided]
    new, old = (counts == total).astype(np.float32), (counts == 0).astype(np.float32)
    found: NDArray[np.bool_] = np.where(candidate, new @ has.T, old @ has.T) > 0
    return found


def differences(deals: Deals, values: Matrix) -> Matrix:
    """Return, for each deal and column, how far the candidate is over the baseline; equal sums are equal numbers."""
    found: Matrix = np.round(deals.weights @ values, 9)
    return found


def chances(found: Matrix) -> Matrix:
    """Return, for each deal and column, the share of deals with as large a number or a larger one."""
    ordered = np.sort(found, axis=0)
    count = len(found)
    p = np.empty_like(found)
    for column in range(found.shape[1]):
        p[:, column] = (count - np.searchsorted(ordered[:, column], found[:, column], side="left")) / count
    return p


@dataclass(frozen=True, slots=True)
class Corrected:
    """Chances of what happened, corrected for how many things were looked at."""

    items: NDArray[np.float64]  # one for each column
    groups: dict[str, float]  # one for each axis
    raw: NDArray[np.float64]  # one for each column, as if only that one had been looked at
    needed: dict[str, float]  # of each axis, the raw p at which an item of it would be over the level


def _ties(found: Matrix) -> Matrix:
    """Return less than one step of p, and more of it the further a number is out.

    Of all deals, one is the furthest in every column. That must not make it as rare as one that is further by far.
    """
    spread = found.std(axis=0)
    out = (found - found.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    step: Matrix = np.clip(out, 0.0, 99.0) / 100 / len(found)
    return step


def correct(found: Matrix, groups: Sequence[str], shares: Mapping[str, float], level: float) -> Corrected:
    """Correct columns, larger is more extreme, in two steps: inside each group, then all groups together.

    ``shares`` says how much of the level a group gets beside the others.
    """
    p = chances(found)
    names = list(dict.fromkeys(groups))
    ranked = p - _ties(found)
    least = {name: ranked[:, [group == name for group in groups]].min(axis=1) for name in names}
    weighed = np.column_stack([chances(-least[name][:, None])[:, 0] / shares[name] for name in names])
    smallest = np.sort(weighed.min(axis=1))
    count = len(found)

    def over_all(weighed_p: float) -> float:
        return float(np.searchsorted(smallest, weighed_p, side="right")) / count

    items = np.empty(len(groups))
    for column, group in enumerate(groups):
        in_group = float((least[group] <= ranked[0, column]).sum()) / count
        items[column] = over_all(in_group / shares[group])
    # The p of a group at which the whole is at the level, then the p of an item at which its group is at that.
    allowed = float(smallest[max(0, int(level * count) - 1)])
    needed = {
        name: max(1 / count, float(np.sort(least[name])[max(0, int(min(1.0, allowed * shares[name]) * count) - 1)]))
        for name in names
    }
    return Corrected(items, {name: over_all(weighed[0, place]) for place, name in enumerate(names)}, p[0], needed)
