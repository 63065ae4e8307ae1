"""All packs over all recordings with labels: what they catch, what they alarm for nothing, and what they cost.

    STREAM_GUARD_DATA=<folder> python -m tests.bench.scorecard [--keep]

Prints a page, and writes it with a plot and JSON to ``.cache``; ``--keep`` writes the page that the project shows.
Figures only; rows in which nothing is found stay in. ``tests/bench/fetch.py`` gets recordings that are public.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from stream_guard.analysis.labels import DetectionShare
from stream_guard.judge.model import Event
from stream_guard.judge.spec import Policy
from tests.bench import hintbench, tracesafe
from tests.bench.packs import BENIGN, SETS, VARIABLE, Measured, Recordings, all_packs, judge, measure, rules_of
from tests.bench.scorecard_page import Row, page, plot

ROOT: Final = Path(__file__).parents[2]
LEFT_OUT: Final = "left out"
NEITHER: Final = (BENIGN, LEFT_OUT, "attack failed")  # an attack that came to nothing may or may not deserve an alert
MEANS: Final = {
    "agentdyn": "bad: the agent did what an injected instruction asked for",
    "claude_code": "all went well",
    "claude_code, long": "all went well",
    "tau_bench": "bad: the task was not solved as it should be",
    "tau2": "bad: the task was not solved as it should be",
    "sentinel_steps": "bad: a failure was put into the run, such as a loop",
    "langfuse_export": "all went well",
    "trail_otel": "bad: all have labelled errors",
    "hintbench": "bad: an LLM wrote risks into the run; three of four are bad",
    "openagentsafety": "bad: a check of the outcome and a judge agree that the unsafe act was done",
    "mini_swe_agent": "all went well",
}


def _agreed(label: Any) -> str:
    if not label["agreed"]:
        return LEFT_OUT
    return "unsafe" if label["unsafe"] else BENIGN


MORE: Final = (
    Recordings("hintbench", "hintbench/trajectories.jsonl.gz", lambda label: "risky" if label["risky"] else BENIGN),
    Recordings("openagentsafety", "openagentsafety/trajectories.jsonl.gz", _agreed),
    Recordings("mini_swe_agent", "mini_swe_agent/trajectories.jsonl.gz", lambda _: BENIGN),
)


def measure_set(folder: Path, one: Recordings, policy: Policy) -> Measured:
    """Judge the sessions of a set; runs that no format has are read by us."""
    if one.name != "hintbench":
        return measure(folder, one, policy)
    return judge((read_hints(path) for path in folder.glob(one.pattern)), policy)


def read_hints(path: Path) -> Iterator[tuple[Sequence[Event], str]]:
    """Yield the events of each written-out run with its group."""
    labels = [json.loads(line) for line in path.with_name("labels.jsonl").read_text(encoding="utf-8").splitlines()]
    for line, label in zip(tracesafe.lines_of(path), labels, strict=True):
        yield list(hintbench.events_of(line)), "risky" if label["risky"] else BENIGN


def score(name: str, found: Measured, shadow: Collection[str]) -> list[Row]:
    """Return a row for each pack, and for all of them together; none where there are no sessions."""
    bad = set[str]().union(*(ids for group, ids in found.sessions.items() if group not in NEITHER))
    fine = found.sessions.get(BENIGN, set())
    if not bad and not fine:
        return []
    packs = rules_of()
    rows = []
    for pack, rules in {**packs, "all packs": [one for listed in packs.values() for one in listed]}.items():
        fired = [found.fired.get(rule, {}) for rule in rules if rule not in shadow]
        hit = set[str]().union(*(ids for groups in fired for ids in groups.values())) & (bad | fine)
        shares = (
            DetectionShare(len(hit & bad), len(hit)),
            DetectionShare(len(hit & bad), len(bad)),
            DetectionShare(len(hit & fine), len(fine)),
        )
        rows.append(Row(name, pack, *shares, found.microseconds if pack == "all packs" else None))
    return rows


def pairs(folder: Path) -> list[Row]:
    """Return rows for traces that come with an unharmed twin each, for the kinds that compare calls with offers."""
    if not (folder / "tracesafe").is_dir():
        return []
    return [
        Row(
            f"tracesafe {one.file.partition('_')[0]}",
            one.rule,
            DetectionShare(one.faulty, one.faulty + one.twins),
            DetectionShare(one.faulty, one.pairs),
            DetectionShare(one.twins, one.pairs),
            None,
        )
        for one in tracesafe.scores(folder)
    ]


def main(arguments: Sequence[str]) -> int:
    """Score what is found, and write the page."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        print(f"{VARIABLE} is not set; it names the folder of the recordings", file=sys.stderr)
        return 2
    policy = all_packs()
    shadow = {spec.id for spec in policy.rules if spec.shadow}
    rows: list[Row] = []
    for one in (*SETS, *MORE):
        rows += score(one.name, measure_set(Path(folder), one, policy), shadow)
        print(f"{one.name}: done", file=sys.stderr, flush=True)
    rows += pairs(Path(folder))
    out = ROOT / ".cache"
    out.mkdir(exist_ok=True)
    (out / "scorecard.json").write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n")
    written = {"scorecard.md": page(rows, MEANS), "scorecard.svg": plot(rows)}
    for name, text in written.items():
        (out / name).write_text(text, encoding="utf-8")
        if "--keep" in arguments:
            (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    print(written["scorecard.md"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
