"""A model of workers and brokers: how long they take for what waits, and how far they fall behind a rate.

Time goes in steps. A worker has one core at most and the partitions that it was given; brokers do their part of the
work for each event; where machines are shared, all of them share their cores. The constants are measured
(``tests.bench.sizing``), and so is how far the model is from the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

WINDOW: Final = (0.9, 0.2)  # of what waited, at the begin and the end of what is measured
_STEP: Final = 0.01  # seconds, of what waits
_SPREAD: Final = 1.2  # of the logarithm of the pace of sessions: one in a hundred is 16 times as fast as the middle one


@dataclass(frozen=True, slots=True)
class Costs:
    """What an event costs, as it was measured."""

    worker_us: float  # CPU of a worker
    wait_us: float  # that a worker waits for brokers, with cores to spare
    broker_us: float  # CPU of the brokers: taken in, given out, the rows and alerts that come of it
    event_bytes: float
    row_bytes: float  # that go to the changelog for an event
    alerts: float  # for an event
    session_bytes: float  # of an open session, in memory


@dataclass(frozen=True, slots=True)
class Behind:
    """How a fleet kept up with a rate."""

    mean_load: float  # of a worker's core
    max_load: float  # of the busiest worker's
    usual_lag: float  # seconds, of the busiest worker, before anybody died
    takeover_lag: float  # seconds, of those who took over, at most
    recovery: float  # seconds from the death until no lag is left that was not usual


def share_out(partitions: int, workers: int) -> list[list[int]]:
    """Return the partitions of each worker, in turns as a group hands them out."""
    return [list(range(first, partitions, workers)) for first in range(workers)]


def drain(costs: Costs, waiting: Sequence[int], workers: int, cores: float) -> float:
    """Return the events a second of workers that find so many waiting in each partition, brokers on the same cores.

    Counted is from when a tenth is done until a fifth is left (``WINDOW``): then all of them are busy.
    """
    left = np.array([sum(waiting[one] for one in owned) for owned in share_out(len(waiting), workers)], float)
    most = _STEP / ((costs.worker_us + costs.wait_us) * 1e-6)
    total, step = left.sum(), 0
    passed: list[int] = []  # the steps in which the window is entered and left
    for share in WINDOW:
        while left.sum() > share * total:
            wanted = np.minimum(left, most)
            asked = wanted.sum() * (costs.worker_us + costs.broker_us) * 1e-6
            # Whoever wants a core gets one while there are enough; then all get their share.
            left -= wanted * min(1.0, cores * _STEP / asked)
            step += 1
        passed.append(step)
    return float((WINDOW[0] - WINDOW[1]) * total / ((passed[1] - passed[0]) * _STEP))


def keep_up(
    costs: Costs,
    *,
    rate: float,
    partitions: int,
    workers: int,
    sessions: int,
    death: float,
    seed: int,
    seconds: int = 240,
) -> Behind:
    """Let events come at a rate, as sessions of different pace; a worker dies after a minute, and others take over.

    For ``death`` seconds nobody judges its partitions; then each goes to another worker.
    """
    dice = np.random.default_rng(seed)
    pace = dice.lognormal(0.0, _SPREAD, sessions)
    per_partition = np.bincount(dice.integers(0, partitions, sessions), pace, partitions)
    per_partition *= rate / per_partition.sum()
    owner = np.arange(partitions) % workers
    capacity = 1e6 / (costs.worker_us + costs.wait_us)
    loads = np.bincount(owner, per_partition, workers) / capacity
    died, back = 60, 60 + round(death)
    lost = np.flatnonzero(owner == int(loads.argmax()))  # the busiest one: the worst case
    heirs = (owner[lost] + 1 + np.arange(len(lost)) % (workers - 1)) % workers
    queue, lag = np.zeros(partitions), np.zeros(seconds)
    for second in range(seconds):
        if second == back:
            owner[lost] = heirs
        queue += dice.poisson(per_partition)
        waits = np.bincount(owner, queue, workers)
        done = np.minimum(1.0, capacity / np.maximum(waits, 1.0))[owner]
        if died <= second < back:
            done[lost] = 0.0
        queue *= 1 - done
        lag[second] = (queue / np.maximum(per_partition, 1e-9)).max()
    usual = float(lag[:died].max())
    late = np.flatnonzero(lag[died:] > usual)
    return Behind(
        mean_load=float(loads.mean()),
        max_load=float(loads.max()),
        usual_lag=usual,
        takeover_lag=float(lag[died:].max()),
        recovery=float(late.max() + 1) if len(late) else 0.0,
    )
