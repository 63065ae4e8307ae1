"""Changes that an improvement explains: what blocks must be more than noise among the sessions it is not about, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_guard_diff.judging import MeasuredAxis, Surface, Thresholds, judge_table
from stream_guard_diff.measured import MEASURED
from stream_guard_diff.measures import ItemTable, SessionItem
from stream_guard_diff.pairing import Stratum

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
    return tuple(sorted(axes, key=_weight))


def _weight(axis: MeasuredAxis) -> tuple[bool, int, float]:
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
