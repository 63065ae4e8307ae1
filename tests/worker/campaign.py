"""The campaign: rounds of disturbances under load, each held against the run of the same records that nothing disturbs.

    python -m tests.worker.campaign --disturbances 1000 --seed 7

A round has a seed of its own, which is printed: ``--disturbances 100 --seed 3`` plays that round again, alone.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any, Final

from stream_guard.cli.demo import write_samples
from tests.kafka.cluster import Cluster, Row
from tests.kafka.trio import Trio
from tests.worker.before import POLICY, install_before
from tests.worker.disturbances import ALL, Scene, change_version, drawn
from tests.worker.fleet import Fleet
from tests.worker.outcome import Outcome, account, poisoned, undisturbed

ROUND: Final = 100  # disturbances
EVENTS: Final = 1_000  # events that come in during each of them
MIXED: Final = 4  # one of so many rounds has workers of two versions
_EVENTS_OF_A_SESSION: Final = 14.5  # of the samples, on the average


@dataclass
class Tally:
    """What came of the rounds."""

    by_kind: Counter[str] = field(default_factory=Counter)
    events: int = 0
    expected: int = 0
    found: int = 0
    lost: int = 0
    extra: int = 0
    repeats: int = 0
    restarts: int = 0
    failed: list[str] = field(default_factory=list)

    def add(self, seed: int, wanted: Outcome, found: Outcome) -> None:
        """Hold a round against the run that nothing disturbed."""
        lost, extra = wanted.alerts.keys() - found.alerts.keys(), found.alerts.keys() - wanted.alerts.keys()
        self.expected += len(wanted.alerts)
        self.found += len(found.alerts)
        self.lost += len(lost)
        self.extra += len(extra)
        self.repeats += found.repeats
        if found.alerts != wanted.alerts or found.sessions != wanted.sessions:
            off = [name for name in wanted.sessions if wanted.sessions[name] != found.sessions.get(name)]
            one = [(name, wanted.sessions[name], found.sessions.get(name)) for name in off[:1]]
            self.failed.append(f"seed {seed}: {len(lost)} lost, {len(extra)} extra, {len(off)} other states: {one}")


def play(trio: Trio, folder: Path, seed: int, count: int, before: Mapping[str, Any] | None, tally: Tally) -> None:
    """Play one round on topics of its own."""
    dice = Random(seed)
    _, policy = write_samples(folder, 1)
    policy.write_text(POLICY if before else policy.read_text().replace("idle: 30m", "idle: 90d"))
    rows = poisoned(round(count * EVENTS / _EVENTS_OF_A_SESSION), every=3)
    wanted = undisturbed(rows, policy)
    with closing(Fleet(Cluster(trio.address, f"round-{seed}"), folder, policy)) as fleet:
        fleet.restarts = 0
        scene = Scene(fleet, trio, dice, before)
        scene.old = {"worker-1"} if before else set()
        for _ in range(3):
            scene.start()
        disturb_all(scene, rows, count, tally)
        fleet.wait_for(len(rows))
        found = account(fleet, rows)
        if before:
            wanted, found = without_states(wanted), without_states(found)
        tally.add(seed, wanted, found)
        tally.events += len(rows)
        tally.restarts += fleet.restarts


def without_states(outcome: Outcome) -> Outcome:
    """The outcome without the bytes of states: of fields that came later, the version before writes none."""
    kept = {name: {**session, "states": None} for name, session in outcome.sessions.items()}
    return replace(outcome, sessions=kept)


def disturb_all(scene: Scene, rows: list[Row], count: int, tally: Tally) -> None:
    """Let records come in, and something happen to a worker, a broker or the network while each share of them does."""
    kinds = [*ALL, change_version] if scene.before else ALL
    step = len(rows) // count
    for number, disturb in enumerate(drawn(scene.dice, count, kinds)):
        piece = rows[number * step : (number + 1) * step if number < count - 1 else len(rows)]
        filling = Thread(target=scene.fleet.cluster.fill, args=(scene.fleet.events, piece))
        filling.start()
        scene.wait(0.0, 1.0)
        try:
            disturb(scene)
        finally:
            filling.join()
        tally.by_kind[disturb.__name__] += 1
        scene.fleet.wait_for((number - 1) * step)  # not all of it: the next one may meet the work of this one


def run(folder: Path, disturbances: int, seed: int) -> Tally:
    """Play as many rounds as the disturbances need, on three brokers."""
    tally = Tally()
    before = install_before(folder) if disturbances > ROUND else None
    with Trio(folder / "trio") as trio:
        for number, begin in enumerate(range(0, disturbances, ROUND)):
            began, one = time.monotonic(), seed + number
            played = folder / f"round-{one}"
            played.mkdir()
            count = min(ROUND, disturbances - begin)
            play(trio, played, one, count, before if number % MIXED == MIXED - 1 else None, tally)
            took = time.monotonic() - began
            said = f"{tally.expected} alerts expected, {tally.lost} lost, {tally.extra} extra, {tally.repeats} repeated"
            print(f"seed {one}: {count} disturbances in {took:.0f} s; so far {said}", flush=True)
    return tally


def main() -> int:
    """Run the campaign and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.worker.campaign", description=__doc__)
    parser.add_argument("--disturbances", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tally = run(Path(folder), given.disturbances, given.seed)
    print(json.dumps(tally.__dict__, indent=1))
    return 1 if tally.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
