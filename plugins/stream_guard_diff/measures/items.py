"""Items: what is measured of a session, and a table of them, one row a session."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import log
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]
_Thing = TypeVar("_Thing", bound=Hashable)

LEAST_SUPPORT: Final = 4  # sessions that must differ from the rest: fewer could never be more than chance
UNUSUAL: Final = 0.01  # share of the sessions up to which a thing is unusual
MOST_ITEMS: Final = 120  # of one axis that are measured one by one, the most frequent first


class SessionItem(NamedTuple):
    """One thing that a session does or not, or does so much of."""

    axis: str
    says: str  # what a session does, as the end of "a session that ..."; of a ratio, what is counted
    worse: Literal[0, 1] = 0  # 1: more is worse, 0: neither way is worse, but a change is a change
    scale: Literal["share", "ratio"] = "share"  # a share is from 0 to 1; a ratio is the logarithm of an amount
    among: str = ""  # the sessions that the item is about, where it is not about all; the others have no value
    rule: str = ""  # the rule of the policy that it is about
    graded: bool = False  # sessions show it more or less strongly, and that is held against chance


class ItemTable:
    """Columns of values, one for each item, one row a session; where an item is not about a session, no number."""

    def __init__(self, sessions: int, tasks: Sequence[int] = ()) -> None:
        self.sessions = sessions
        self.tasks = tasks or range(sessions)
        self.items: list[SessionItem] = []
        self.columns: list[Values] = []
        self.evidence: list[Values] = []  # what chance is held against; mostly the columns themselves
        self.novelties: list[tuple[SessionItem, Sequence[set[str]], int]] = []

    def add(
        self,
        item: SessionItem,
        values: Iterable[float | None],
        *,
        evidence: Sequence[float] | None = None,
        always: bool = False,
    ) -> None:
        """Add a column. One in which nearly all sessions are alike could never tell the sides apart: it is dropped.

        ``evidence`` says how strongly each session shows the item; chance is then held against that, and the values
        only say how many sessions it is.
        """
        column = np.array([np.nan if value is None else float(value) for value in values])
        known = column[~np.isnan(column)]
        if not len(known):
            return
        _, counts = np.unique(known, return_counts=True)
        if always or len(known) - counts.max() >= LEAST_SUPPORT:
            self.items.append(item if evidence is None else item._replace(graded=True))
            self.columns.append(column)
            self.evidence.append(column if evidence is None else np.array(evidence, dtype=np.float64))

    def add_each(self, axis: str, sets: Sequence[set[str]], says: str) -> None:
        """Add a column for each thing that sessions have or lack, the most frequent first."""
        support = count_support(sets)
        for name in sorted(support, key=lambda name: (-support[name], name))[:MOST_ITEMS]:
            self.add(SessionItem(axis, says.format(name)), [name in found for found in sets])

    def add_unusual(self, axis: str, sets: Sequence[set[str]], says: str) -> None:
        """Add a column: sessions with a thing that next to none has. More is worse."""
        rare = self.rare(sets)
        self.add(SessionItem(axis, says, 1), [not rare.isdisjoint(found) for found in sets])

    def rare(self, sets: Sequence[set[str]]) -> set[str]:
        """Return the things that next to no session has."""
        return {name for name, count in count_support(sets).items() if count <= max(1, UNUSUAL * len(sets))}

    def add_new(self, axis: str, sets: Sequence[set[str]], says: str, least: int = 1) -> None:
        """Look for things that only the candidate's sessions have, at least so many; ``says`` has a place for one."""
        self.novelties.append((SessionItem(axis, says, 1), sets, least))

    def mates(self) -> list[list[int]]:
        """Return, for each session, the others with its task."""
        rows: dict[int, list[int]] = {}
        for row, task in enumerate(self.tasks):
            rows.setdefault(task, []).append(row)
        return [[other for other in rows[task] if other != row] for row, task in enumerate(self.tasks)]

    def split_off(self, axis: str) -> ItemTable:
        """Take the columns of an axis out, and return them as a table of their own."""
        taken = ItemTable(self.sessions, self.tasks)
        mine = [number for number, item in enumerate(self.items) if item.axis != axis]
        theirs = [number for number, item in enumerate(self.items) if item.axis == axis]
        for table, numbers in ((taken, theirs), (self, mine)):
            table.items, table.columns, table.evidence = (
                [self.items[number] for number in numbers],
                [self.columns[number] for number in numbers],
                [self.evidence[number] for number in numbers],
            )
        return taken

    def matrix(self) -> Values:
        """Return all columns beside each other."""
        return np.column_stack(self.columns) if self.columns else np.zeros((self.sessions, 0))

    def evidence_matrix(self) -> Values:
        """Return what chance is held against, all columns beside each other."""
        return np.column_stack(self.evidence) if self.evidence else np.zeros((self.sessions, 0))


def surprise(count: float, of: float) -> float:
    """Return how much a thing says that so many of the others do: nothing if all do, more the fewer they are."""
    return max(0.0, -log((count + 0.5) / (of + 1)))


def in_spreads(values: Sequence[float]) -> Values:
    """Return how far each value is from the mean, by how far they are usually."""
    apart = np.array(values, dtype=np.float64)
    spread = float(apart.std())
    scaled: Values = (apart - apart.mean()) / (spread or 1.0)
    return scaled


def count_support(sets: Iterable[Iterable[_Thing]]) -> Mapping[_Thing, int]:
    """Return in how many sets each thing is."""
    support: dict[_Thing, int] = {}
    for found in sets:
        for name in found:
            support[name] = support.get(name, 0) + 1
    return support


# Learning from sessions what a thing looks like, and judging each session by what the others teach.


def judge_by_others(
    table: NDArray[np.float64],
    is_twin: NDArray[np.bool_],
    owners: NDArray[np.intp],
    sessions: int,
    shrink: float,
    is_taught: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Return what ridge regression says of each example when its own session is left out, in closed form.

    Examples of one session stand together, in the order of sessions; a twin scores 1, any other -1. Those that are
    not taught are judged all the same.
    """
    taught = np.ones(len(table), dtype=np.bool_) if is_taught is None else is_taught
    wanted = np.where(is_twin, 1.0, -1.0)
    spread = np.linalg.inv(table[taught].T @ table[taught] + shrink * np.eye(table.shape[1]))
    weights = spread @ (table[taught].T @ wanted[taught])
    scores = np.zeros(len(wanted))
    starts = np.searchsorted(owners, np.arange(sessions + 1))
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        mine = table[start:end]
        own = mine[taught[start:end]]
        missed = wanted[start:end][taught[start:end]] - own @ weights
        held = np.eye(len(own)) - own @ spread @ own.T
        scores[start:end] = mine @ (weights - spread @ (own.T @ np.linalg.solve(held, missed)))
    return scores
