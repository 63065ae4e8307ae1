"""Whether what changed is more than noise: how large it is, what chance does, and what explains it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import ceil, comb, exp, expm1, log, sqrt
from statistics import NormalDist
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_guard import Policy, redact_text
from stream_guard_diff.gate import LEAST_RATIO, LEAST_SHARE, LEVEL, MEASURED, POLICY_LEVEL
from stream_guard_diff.measures import ItemTable, SessionItem, measure_sessions
from stream_guard_diff.pairing import Pairing, Stratum
from stream_guard_diff.trails import SessionTrail

FAR: Final = log(1.7)  # this much more than the other sessions of a task is far more
RESAMPLES: Final = 1_000
ENOUGH_STRATA: Final = 8  # to draw strata; under that, the interval is that of the normal distribution
_SEED: Final = 42

Matrix = NDArray[np.float64]


class Effect(NamedTuple):
    """Before, after, the difference, and its 95 % interval; of an amount, all of them logarithms."""

    before: float
    after: float
    difference: float
    low: float
    high: float


Effects = dict[int, Effect]


def rows_of(stratum: Stratum, first_candidate: int) -> list[int]:
    """Return the rows of a stratum in a table of the baseline's sessions and then the candidate's."""
    return [*stratum.baseline, *(first_candidate + place for place in stratum.candidate)]


def fill_missing(values: Matrix, strata: Sequence[Stratum], first_candidate: int) -> Matrix:
    """Return the values where a missing one is the mean of its stratum, and so speaks for neither side."""
    filled = values.copy()
    for stratum in strata:
        rows = rows_of(stratum, first_candidate)
        part = values[rows]
        missing = np.isnan(part)
        if missing.any():
            known = (~missing).sum(axis=0)
            means = np.nansum(part, axis=0) / np.maximum(known, 1)
            filled[rows] = np.where(missing, means, part)
    return np.nan_to_num(filled)


def far_columns(
    items: Sequence[SessionItem], values: Matrix, strata: Sequence[Stratum], first_candidate: int
) -> tuple[list[SessionItem], Matrix]:
    """Add, for each amount, sessions with far more of it than others with their task; and far fewer, where that counts.

    A few sessions with twice the amount hardly move the mean.
    """
    made, columns = list(items), [values]
    for column, item in enumerate(items):
        if item.scale != "ratio":
            continue
        apart = np.zeros(len(values))
        for stratum in strata:
            rows = rows_of(stratum, first_candidate)
            part = values[rows, column]
            # The middle one of the others: a fault that some of them have as well hardly moves it.
            apart[rows] = part - np.array([np.median(np.delete(part, place)) for place in range(len(part))])
        made.append(item._replace(says=f"has far more {item.says} than others with its task", scale="share"))
        columns.append((apart > FAR)[:, None].astype(np.float64))
        if not item.worse:
            made.append(item._replace(says=f"has far fewer {item.says} than others with its task", scale="share"))
            columns.append((apart < -FAR)[:, None].astype(np.float64))
    return made, np.concatenate(columns, axis=1)


def measure_effects(values: Matrix, strata: Sequence[Stratum], first_candidate: int, columns: Sequence[int]) -> Effects:
    """Return the effects of some columns."""
    if not columns:
        return {}
    part = values[:, list(columns)]
    old = np.array([part[list(stratum.baseline)].mean(axis=0) for stratum in strata])
    new = np.array([part[[first_candidate + place for place in stratum.candidate]].mean(axis=0) for stratum in strata])
    sizes = np.array([(len(stratum.baseline), len(stratum.candidate)) for stratum in strata], dtype=float)
    weights = sizes.prod(axis=1) / sizes.sum(axis=1)
    before, after = np.average(old, axis=0, weights=weights), np.average(new, axis=0, weights=weights)
    if len(strata) >= ENOUGH_STRATA:
        drawn = np.random.default_rng(_SEED).multinomial(len(strata), np.full(len(strata), 1 / len(strata)), RESAMPLES)
        drawn_weights = drawn * weights
        resampled = drawn_weights @ (new - old) / drawn_weights.sum(axis=1, keepdims=True)
        low, high = np.percentile(resampled, [2.5, 97.5], axis=0)
    else:
        spread = 1.96 * _standard_error(part, strata, first_candidate, weights)
        low, high = after - before - spread, after - before + spread
    return {
        column: Effect(*(float(row[place]) for row in (before, after, after - before, low, high)))
        for place, column in enumerate(columns)
    }


def _standard_error(values: Matrix, strata: Sequence[Stratum], first_candidate: int, weights: Matrix) -> Matrix:
    total = np.zeros(values.shape[1])
    for stratum, weight in zip(strata, weights / weights.sum(), strict=True):
        for rows in (list(stratum.baseline), [first_candidate + place for place in stratum.candidate]):
            total += weight**2 * values[rows].var(axis=0) / max(1, len(rows) - 1)
    root: Matrix = np.vectorize(sqrt)(total)
    return root


# What chance does: the sides are dealt out anew inside each stratum, and every item is held against that.
#
# Items are corrected together by the least p (Westfall and Young) in two steps: the items of an axis first, then the
# axes. So an axis with a hundred items weighs no more than one with two.

DEALS: Final = 5_000
_FEWEST: Final = 1_000
_CELLS: Final = 20_000_000  # deals times sessions that are in memory; beyond, there are fewer deals
SEED: Final = 42
_MOST_THINGS: Final = 1_000
_DEALS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Deals:
    """Ways to deal sessions out to the sides. A row times a column of values is the difference of the sides."""

    weights: Matrix  # one row a deal, the first as it was; one column a session

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
    total = sum(_stratum_weight(stratum) for stratum in strata) or 1.0
    by_shape: defaultdict[tuple[int, int], list[Stratum]] = defaultdict(list)
    for stratum in strata:
        by_shape[len(stratum.baseline), len(stratum.candidate)].append(stratum)
    for (before, after), same in by_shape.items():
        weight = before * after / (before + after) / total
        share = np.concatenate([np.full(before, -weight / before), np.full(after, weight / after)])
        for stratum in same:
            members = [*stratum.baseline, *(first_candidate + place for place in stratum.candidate)]
            dealt = drawn.permuted(np.broadcast_to(share, (count, len(share))).copy(), axis=1)
            weights[0, members] = share
            weights[1:, members] = dealt
    return Deals(weights)


def _stratum_weight(stratum: Stratum) -> float:
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


# Whether what changed is more than noise, large enough to matter, and for the worse; and what could have been seen.

MOST_CHANGES: Final = 5  # of one axis that a report names
MOST_SESSIONS: Final = 5  # that a change names to show it
POWER: Final = 0.8  # how likely a change must be seen, to be called detectable
WANTED: Final = 0.10  # the change for which a report says how many sessions would show it

# Ten faults among a hundred sessions can be told from chance when next to no other session looks like that. Of what
# more sessions do anyway, only a large change shows, and that is far from chance: it needs little of the level.
FEW: Final = 11  # sessions of both sides
NOT_MANY: Final = 16
NEW: Final = ", new"
SOME: Final = ", some"
USUAL: Final = ", usual"
SHARES: Final = {NEW: 0.3, SOME: 0.5, USUAL: 0.1}  # of the level, beside what few do

_NEXT_TO_NONE: Final = 0.001  # of the sessions: an axis on which chance does no more has nothing usual to change

Direction = Literal["worse", "better", "changed"]


class ItemChange(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that sessions do more or less than before, by more than chance explains."""

    says: str
    among: str
    scale: Literal["share", "ratio"]
    before: float
    after: float
    effect: float  # of a share, the difference; of an amount, the change as a share of what it was
    low: float  # of the 95 % interval of the effect
    high: float
    chance: float  # corrected: how often chance alone would show as much, anywhere
    direction: Direction
    large: bool  # at least the least effect that matters
    sessions: tuple[str, ...] = ()  # of the candidate, those that show it best


class MeasuredAxis(msgspec.Struct, frozen=True, kw_only=True):
    """What one axis says about all sessions."""

    name: str
    title: str
    chance: float
    verdict: Literal["noise", "small", "worse", "better", "changed"]
    blocks: bool
    changes: tuple[ItemChange, ...] = ()
    least: float  # the least effect that matters
    new_in: int | None = (
        None  # sessions of the candidate that must do something new, for it to be seen; None: all are too few
    )
    detectable: float | None = None  # the smallest change of something usual that would be seen, most likely
    sessions_needed: int | None = None  # on each side, to see a change of a tenth of the sessions
    because: str = ""  # the improvement that explains the change, which then does not block
    alone: float = 1.0  # the chance of its strongest item, as if nothing else had been looked at


class NoiseReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured against chance; where nothing could be, why not."""

    level: float = LEVEL
    baseline: int = 0  # sessions that were compared
    candidate: int = 0
    strata: int = 0
    policy: tuple[MeasuredAxis, ...] = ()
    behaviour: tuple[MeasuredAxis, ...] = ()
    not_measured: str = ""

    @property
    def axes(self) -> tuple[MeasuredAxis, ...]:
        """All axes, the policy first."""
        return self.policy + self.behaviour


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The least effects that matter, by axis or rule, where they are not the usual ones."""

    least: Mapping[str, float] = field(default_factory=dict)
    level: float = LEVEL

    def of(self, item: SessionItem) -> float:
        """Return the least effect of an item."""
        usual = LEAST_RATIO if item.scale == "ratio" else LEAST_SHARE
        return self.least.get(item.rule, self.least.get(item.axis, usual))

    def forbids(self, item: SessionItem) -> bool:
        """Whether any increase blocks, by chance or not: the user said that none is small enough."""
        return bool(item.worse) and self.least.get(item.rule or item.axis) == 0

    def names(self, item: SessionItem) -> bool:
        """Whether the user named the item's rule or axis, and so wants it to block."""
        return item.rule in self.least or item.axis in self.least


@dataclass(frozen=True, slots=True)
class Surface:
    """Items that are corrected together, with everything that judging them needs."""

    strata: Sequence[Stratum]
    items: Sequence[SessionItem]
    values: NDArray[np.float64]
    first_candidate: int
    names: Sequence[str]  # of the candidate's sessions
    thresholds: Thresholds
    averaged: int  # columns whose difference is one of means; those after them count what is new


def judge_table(
    strata: Sequence[Stratum], table: ItemTable, first_candidate: int, names: Sequence[str], thresholds: Thresholds
) -> tuple[Surface, list[MeasuredAxis]]:
    """Return what each axis of a table says; the candidate's sessions are the rows from ``first_candidate`` on."""
    items, values = far_columns(
        table.items, fill_missing(table.matrix(), strata, first_candidate), strata, first_candidate
    )
    evidence = values.copy()
    graded = [column for column, item in enumerate(table.items) if item.graded]
    evidence[:, graded] = table.evidence_matrix()[:, graded]
    deals = deal(strata, len(values), first_candidate)
    news = [_novel(item, sets, least, deals) for item, sets, least in table.novelties]
    items += [item for item, _, _ in news]
    values = np.column_stack([values, *(column for _, column, _ in news)])
    surface = Surface(strata, items, values, first_candidate, names, thresholds, len(items) - len(news))
    found = np.column_stack([differences(deals, evidence), *(counts for _, _, counts in news)])
    corrected = _correct(surface, found)
    return surface, [_axis(surface, name, found, corrected, deals) for name in dict.fromkeys(one.axis for one in items)]


def _novel(
    item: SessionItem, sets: Sequence[Set[str]], least: int, deals: Deals
) -> tuple[SessionItem, NDArray[np.float64], NDArray[np.float64]]:
    """Return the item about the thing that is new, in which sessions it is, and how often things are new by chance."""
    counts, column, things = novelty(deals, sets, least)
    more = f" (or one of {len(things) - 1} more)" if len(things) > 1 else ""
    shown = f"{redact_text(things[0])}{more}" if things else "nothing"
    return item._replace(says=item.says.format(shown)), column, counts


def _correct(surface: Surface, found: NDArray[np.float64]) -> tuple[Corrected, Corrected | None]:
    """Correct what got worse, or only changed; and by itself what got better, which never blocks."""
    groups = _groups(surface)
    shares = {group: _share_of(group) for group in groups}
    directed = np.array([item.worse for item in surface.items]) == 1
    level = surface.thresholds.level
    worse = correct(np.where(directed, found, np.abs(found)), groups, shares, level)
    columns = _that_can_improve(surface)
    if not columns:
        return worse, None
    return worse, correct(-found[:, columns], [groups[column] for column in columns], shares, level)


def _that_can_improve(surface: Surface) -> list[int]:
    """Return the columns of which less is better. That the candidate lacks what the baseline had is no improvement."""
    return [column for column, item in enumerate(surface.items[: surface.averaged]) if item.worse]


def _groups(surface: Surface) -> list[str]:
    """Return which items are corrected together: of each axis what few sessions have, what is new, the rest.

    How many have it is counted over both sides, so that dealing out stays fair.
    """
    dealt = sorted({row for stratum in surface.strata for row in rows_of(stratum, surface.first_candidate)})
    support = (surface.values[dealt] != 0).sum(axis=0)
    return [
        f"{item.axis}{_tier(item, int(support[column]), is_new=column >= surface.averaged)}"
        for column, item in enumerate(surface.items)
    ]


def _tier(item: SessionItem, support: int, *, is_new: bool) -> str:
    if is_new:
        return NEW
    if item.scale != "share" or not item.worse:
        return USUAL
    if item.graded or support <= FEW:
        return ""
    return SOME if support <= NOT_MANY else USUAL


def _share_of(group: str) -> float:
    return next((share for tier, share in SHARES.items() if group.endswith(tier)), 1.0)


def _axis(
    surface: Surface,
    name: str,
    found: NDArray[np.float64],
    corrected: tuple[Corrected, Corrected | None],
    deals: Deals,
) -> MeasuredAxis:
    worse, better = corrected
    level = surface.thresholds.level
    columns = [column for column, item in enumerate(surface.items) if item.axis == name]
    forbidden = [c for c in columns if surface.thresholds.forbids(surface.items[c]) and found[0, c] > 0]
    real = sorted({column for column in columns if worse.items[column] <= level} | set(forbidden))
    chances = worse.items
    if not real and better is not None:
        chances = np.ones(len(surface.items))
        chances[_that_can_improve(surface)] = better.items
        real = [column for column in columns if chances[column] <= level]
    effects = measure_effects(surface.values, surface.strata, surface.first_candidate, real)
    changes = [_change(surface, column, effects, chances[column]) for column in real]
    changes.sort(key=lambda change: (change.chance, -abs(change.effect)))
    verdict = _verdict(changes)
    kind = MEASURED[name]
    least = surface.thresholds.of(surface.items[columns[0]])
    needed_p = next(
        worse.needed[group] for tier in ("", SOME, NEW, USUAL) if (group := f"{name}{tier}") in worse.needed
    )
    new_in, detectable, needed = _power(surface, columns, found, needed_p, deals)
    return MeasuredAxis(
        name=name,
        title=kind.title,
        chance=float(min(chances[columns])),
        verdict=verdict,
        blocks=verdict in ("worse", "changed")
        and (kind.blocks or any(surface.thresholds.names(surface.items[column]) for column in real)),
        changes=tuple(changes[:MOST_CHANGES]),
        least=least,
        new_in=new_in,
        detectable=detectable,
        sessions_needed=needed,
        alone=float(min(worse.raw[columns])),
    )


def _verdict(changes: Sequence[ItemChange]) -> Literal["noise", "small", "worse", "better", "changed"]:
    if not changes:
        return "noise"
    large = [change.direction for change in changes if change.large]
    for direction in ("worse", "changed", "better"):
        if direction in large:
            return direction
    return "small"


def _change(surface: Surface, column: int, effects: Effects, chance: float) -> ItemChange:
    item = surface.items[column]
    before, after, effect, low, high = effects[column]
    direction: Direction = "changed"
    if item.worse:
        direction = "worse" if effect > 0 else "better"
    if item.scale == "ratio":
        before, after = expm1(before), expm1(after)
        effect, low, high = (exp(value) - 1 for value in (effect, low, high))
    return ItemChange(
        says=item.says,
        among=item.among,
        scale=item.scale,
        before=before,
        after=after,
        effect=effect,
        low=low,
        high=high,
        chance=float(chance),
        direction=direction,
        large=abs(effect) >= surface.thresholds.of(item),
        sessions=_show(surface, column, effect),
    )


def _show(surface: Surface, column: int, effect: float) -> tuple[str, ...]:
    """Return the candidate's sessions that are furthest from the baseline of their own stratum, in the effect's way."""
    apart: list[tuple[float, int]] = []
    sign = 1 if effect > 0 else -1
    values = surface.values[:, column]
    for stratum in surface.strata:
        usual = float(np.mean(values[list(stratum.baseline)]))
        for place in stratum.candidate:
            distance = sign * (float(values[surface.first_candidate + place]) - usual)
            if distance > 0:
                apart.append((-distance, place))
    return tuple(surface.names[place] for _, place in sorted(apart)[:MOST_SESSIONS])


def _power(
    surface: Surface, columns: Sequence[int], found: NDArray[np.float64], needed: float, deals: Deals
) -> tuple[int | None, float | None, int | None]:
    """Return what could have been seen: new things by counting, changes of usual ones by how much chance moves them."""
    sessions = sum(len(stratum.candidate) for stratum in surface.strata)
    share = sessions / max(1, len({place for stratum in surface.strata for place in stratum.baseline}) + sessions)
    needed = min(needed, surface.thresholds.level)
    new_in = ceil(log(max(needed, 1 / deals.count)) / log(share)) if 0 < share < 1 else None
    new_in = None if new_in is None or new_in > sessions else new_in
    averaged = [column for column in columns if column < surface.averaged]
    counted = [column for column in averaged if surface.items[column].scale == "share"]
    spread = found[:, counted or averaged].std(axis=0)
    if not len(spread) or np.median(spread) < _NEXT_TO_NONE:
        return new_in, None, None
    normal = NormalDist()
    far = normal.inv_cdf(1 - min(0.5, max(needed, 1e-6))) + normal.inv_cdf(POWER)
    detectable = float(far * np.median(spread))
    return new_in, detectable, ceil(sessions * (detectable / WANTED) ** 2)


# Changes that an improvement explains: what blocks must be more than noise among the sessions it is not about, too.

FAR_APART: Final = 2.0  # standard errors


@dataclass(frozen=True, slots=True)
class Improved:
    """Faults that got rarer: the sessions that have one, on either side, and what they are called."""

    faulty: NDArray[np.bool_]
    titles: tuple[str, ...] = ()


def improved_faults(
    axes: Sequence[MeasuredAxis], items: Sequence[SessionItem], values: NDArray[np.float64]
) -> Improved:
    """Return the faults that got rarer, by what the axes say, and the sessions that have them.

    Of an axis, the change that is furthest from chance counts: others may be about sessions that are fine.
    """
    better = [axis for axis in axes if axis.verdict == "better" and MEASURED[axis.name].fault]
    says = {axis.changes[0].says for axis in better}
    columns = [column for column, item in enumerate(items) if item.says in says and item.scale == "share"]
    return Improved(values[:, columns].max(axis=1, initial=0.0) > 0, tuple(axis.title for axis in better))


def judge_surface(
    strata: Sequence[Stratum],
    table: ItemTable,
    first_candidate: int,
    names: Sequence[str],
    thresholds: Thresholds,
    improved: Improved | None = None,
) -> tuple[MeasuredAxis, ...]:
    """Return what each axis of a table says; the candidate's sessions are the rows from ``first_candidate`` on.

    ``improved`` are faults of another surface that got rarer.
    """
    if not table.items:
        return ()
    surface, axes = judge_table(strata, table, first_candidate, names, thresholds)
    if any(axis.blocks for axis in axes):
        axes = _explain(surface, table, axes, improved or Improved(np.zeros(len(surface.values), dtype=np.bool_)))
    return tuple(sorted(axes, key=_axis_weight))


def _axis_weight(axis: MeasuredAxis) -> tuple[bool, int, float]:
    order = ("worse", "changed", "better", "small", "noise")
    return (not axis.blocks, order.index(axis.verdict), axis.chance)


def _explain(
    surface: Surface, table: ItemTable, axes: Sequence[MeasuredAxis], elsewhere: Improved
) -> list[MeasuredAxis]:
    """Compare again without the sessions that have a fault which got rarer: a change that is then gone, it explains.

    An agent that no longer refuses does more: it calls tools, and some of the calls fail. What blocks must be more than
    chance among the other sessions too. With under a third of them left, nothing can be told or explained. Nor is a
    fault that came where the old one went.
    """
    here = improved_faults(axes, surface.items, surface.values)
    faulty = here.faulty | elsewhere.faulty
    strata = [_without(stratum, faulty, surface.first_candidate) for stratum in surface.strata]
    rest = [stratum for stratum in strata if stratum.baseline and stratum.candidate]
    enough = all(3 * left >= every for left, every in zip(_sizes(rest), _sizes(surface.strata), strict=True))
    if not faulty.any() or not enough:
        return list(axes)
    _, again = judge_table(rest, table, surface.first_candidate, surface.names, surface.thresholds)
    blocking = {axis.name for axis in again if axis.blocks}
    titles = ", ".join(elsewhere.titles + here.titles)
    return [
        msgspec.structs.replace(axis, blocks=False, because=titles)
        if axis.blocks and axis.name not in blocking and not _is_inexcusable(surface, axis, faulty)
        else axis
        for axis in axes
    ]


def _is_inexcusable(surface: Surface, axis: MeasuredAxis, faulty: NDArray[np.bool_]) -> bool:
    """Whether the user allows none of it, or it is a fault that came where the old one went.

    That is one which is mostly in those sessions of the candidate whose task had the old fault before.
    """
    if surface.thresholds.least.get(axis.name) == 0 or not MEASURED[axis.name].fault:
        return surface.thresholds.least.get(axis.name) == 0
    freed: list[int] = []
    others: list[int] = []
    for stratum in surface.strata:
        rows = [surface.first_candidate + place for place in stratum.candidate]
        (freed if faulty[list(stratum.baseline)].any() else others).extend(rows)
    places = {(item.axis, item.says): column for column, item in enumerate(surface.items)}
    for change in axis.changes:
        if change.large and change.direction == "worse" and change.scale == "share" and freed and others:
            column = surface.values[:, places[axis.name, change.says]]
            there, elsewhere, share = (float(column[rows].mean()) for rows in (freed, others, freed + others))
            error = sqrt(max(0.0, share * (1 - share)) * (1 / len(freed) + 1 / len(others)))
            if there - elsewhere > max(FAR_APART * error, change.effect / 2):
                return True
    return False


def _sizes(strata: Sequence[Stratum]) -> tuple[int, int]:
    return sum(len(stratum.baseline) for stratum in strata), sum(len(stratum.candidate) for stratum in strata)


def _without(stratum: Stratum, faulty: NDArray[np.bool_], first_candidate: int) -> Stratum:
    return replace(
        stratum,
        baseline=tuple(place for place in stratum.baseline if not faulty[place]),
        candidate=tuple(place for place in stratum.candidate if not faulty[first_candidate + place]),
    )


# The two surfaces that a gate looks at, measured against chance: the rules of the policy, and behaviour.

BLOCKING: Final = ("error", "critical")  # severities of rules that block; the others are reported


def measure_noise(  # both sides, how they are paired, and what they are held to
    pairing: Pairing,
    old: Sequence[SessionTrail],
    new: Sequence[SessionTrail],
    broken: Sequence[Set[str]],
    policy: Policy | None,
    thresholds: Thresholds,
) -> NoiseReport:
    """Measure every session, and hold the difference of the sides against what chance does inside the strata."""
    strata = pairing.strata
    report = NoiseReport(
        level=thresholds.level,
        baseline=sum(len(stratum.baseline) for stratum in strata),
        candidate=sum(len(stratum.candidate) for stratum in strata),
        strata=len(strata),
        not_measured=_cannot_be_measured(strata, POLICY_LEVEL * thresholds.level),
    )
    if report.not_measured:
        return report
    names = [trail.session_id for trail in new]
    table = measure_sessions((*old, *new), _tasks(strata, len(old), len(new)))
    words = table.split_off("words")
    rules = _rule_table(broken, policy) if policy else ItemTable(len(broken))
    judged = judge_surface(strata, rules, len(old), names, replace(thresholds, level=POLICY_LEVEL * thresholds.level))
    fixed = improved_faults(judged, rules.items, rules.matrix()) if judged else None
    # By themselves: words never block, and what never blocks must not make the rest harder to see.
    behaviour = judge_surface(strata, table, len(old), names, thresholds, fixed)
    behaviour += judge_surface(strata, words, len(old), names, thresholds)
    return msgspec.structs.replace(report, policy=judged, behaviour=behaviour)


def _cannot_be_measured(strata: Sequence[Stratum], level: float) -> str:
    """Return why chance cannot be told from change, or nothing: there are too few ways to deal the sessions out."""
    ways = 1.0
    for stratum in strata:
        ways *= comb(len(stratum.baseline) + len(stratum.candidate), len(stratum.candidate))
        if ways > 1 / level:
            return ""
    sessions = sum(len(stratum.baseline) for stratum in strata), sum(len(stratum.candidate) for stratum in strata)
    return f"{sessions[0]} against {sessions[1]} sessions are too few to tell change from chance"


def _tasks(strata: Sequence[Stratum], before: int, after: int) -> list[int]:
    """Return the number of each session's stratum; one that is in none has a number of its own."""
    tasks = list(range(len(strata), len(strata) + before + after))
    for number, stratum in enumerate(strata):
        for row in rows_of(stratum, before):
            tasks[row] = number
    return tasks


def _rule_table(broken: Sequence[Set[str]], policy: Policy) -> ItemTable:
    table = ItemTable(len(broken))
    for rule in policy.rules:
        axis = "rules" if rule.severity.word in BLOCKING else "lesser_rules"
        item = SessionItem(axis, f"breaks the rule {rule.id}", 1, rule=rule.id)
        table.add(item, [rule.id in found for found in broken], always=any(rule.id in found for found in broken))
    return table
