"""Learning from sessions what a thing looks like, and judging each session by what the others teach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


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
