"""Run the campaign, or measure how long answers take, and print the figures."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from contextlib import ExitStack
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from tests.gates.campaign import POLICY, Tally, allowed_by_one_guard, run
from tests.gates.fleet import Fleet
from tests.history.postgres import started


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.gates", description=__doc__)
    parser.add_argument("--gates", type=int, default=3)
    parser.add_argument("--store", choices=("postgres", "file"), default="postgres", help="file: for one gate")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--checks", type=int, default=100_000)
    parser.add_argument("--kill-every", type=float, default=0.0, help="seconds between two kills; 0: none")
    parser.add_argument("--seconds", type=float, default=inf, help="end then, whatever was asked by then")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds that a client waits before it asks again")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--synced", action="store_true", help="let the database sync each commit to the disk")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        folder = Path(name)
        store = str(folder / "sessions.db")
        if args.store == "postgres":
            store = opened.enter_context(started(synced=args.synced)).address
        fleet = Fleet(folder, POLICY, store, args.gates, opened)
        began = time.monotonic()
        settings = {name: getattr(args, name) for name in ("clients", "checks", "kill_every", "pace", "seconds")}
        tally = asyncio.run(run(fleet, Random(args.seed), **settings))
        seconds = time.monotonic() - began
        wanted = allowed_by_one_guard(tally.asked)
        print(
            json.dumps(
                {
                    **{name: value for name, value in vars(args).items() if value != inf},
                    **figures(tally, wanted == tally.allowed),
                    "kills": fleet.kills,
                    "freezes": fleet.freezes,
                    "took": round(seconds),
                }
            )
        )


def figures(tally: Tally, counts_as_one: bool) -> dict[str, Any]:
    """Return what is to be shown."""
    times = sorted(tally.seconds)
    return {
        "answers": tally.answers,
        "asked again": tally.repeated,
        "episodes": dict(tally.episodes),
        "wrong": tally.wrong[:10],
        "limits": len(tally.allowed),
        "counts as one guard": counts_as_one,
        "p50 ms": round(1000 * times[len(times) // 2], 2),
        "p99 ms": round(1000 * times[len(times) * 99 // 100], 2),
    }


main()
