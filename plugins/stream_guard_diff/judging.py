"""Whether what changed is more than noise, large enough to matter, and for the worse; and what could have been seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import ceil, exp, expm1, log
from statistics import NormalDist
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_guard import redact_text
from stream_guard_diff.effects import Effects, far_columns, fill_missing, measure_effects, rows_of
from stream_guard_diff.measured import LEAST_RATIO, LEAST_SHARE, LEVEL, MEASURED
from stream_guard_diff.measures import ItemTable, SessionItem
from stream_guard_diff.noise import Corrected, Deals, correct, deal, differences, novelty
from stream_guard_diff.pairing import Stratum

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
