"""How well rules find what is wrong in real recordings: precision, recall, alerts on benign runs, delay, and attacks.

    STREAM_GUARD_DATA=<folder> python -m tests.bench.detection

Prints tables, and writes JSON and a plot to ``.cache/bench-detection.json`` and ``.svg``. It asserts nothing.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

import stream_guard as sg
from stream_guard.analysis.labels import DetectionScore, DetectionShare, Label, score_rules, score_table
from stream_guard.registry import Registry, build_registry
from tests.bench.detection_attacks import AttackedRun, Poison, encode, shared_paragraphs, transforms, tries

ROOT: Final = Path(__file__).parents[2]
POLICIES: Final = Path(__file__).parent / "data" / "detection"
TRIES: Final = 3
DRAWS: Final = 20  # attackers who choose their tries by chance
# What the reference's alerts say about the form of a run, or of any tool: no rule of a desk's policy.
NO_POLICY: Final = frozenset(
    (
        *("tool_error", "tool_errors_ge3", "same_call_twice", "same_call_3x"),
        *("text_and_tool_call_together", "parallel_tool_calls"),
    )
)


class LabelledRun(NamedTuple):
    """One recorded run as a line, and its label: whether and from which turn on it is bad."""

    name: str
    line: bytes
    label: Label


class Dataset(NamedTuple):
    """Labelled runs, the policy for them, and the format they are written in."""

    name: str
    policy: str
    decoder: str
    runs: Sequence[LabelledRun]


def main() -> int:
    """Score every policy on its recordings."""
    folder = os.environ.get("STREAM_GUARD_DATA")
    if not folder or not (Path(folder) / "agentdyn").is_dir():
        print("STREAM_GUARD_DATA names no folder with agentdyn in it; there is nothing to measure", file=sys.stderr)
        return 1
    registry = build_registry()
    report: dict[str, Any] = {}
    plotted: list[tuple[str, DetectionScore]] = []
    for dataset in datasets(Path(folder)):
        scores = score(dataset, registry) + reference(Path(folder), dataset)
        print(f"\n{dataset.name}: {len(dataset.runs)} runs, {sum(map(_is_bad, dataset.runs))} bad")
        print("\n".join(score_table(scores)))
        report[dataset.name] = [_as_json(one) for one in scores]
        plotted += [(f"{dataset.name}: {one.rule_id}", one) for one in scores]
    attacks = adaptive(Path(folder), registry)
    print(f"\nattacks that were changed, of those the policy knows the recorded form of: recall of {INJECTED}")
    for name, share in attacks.by_way.items():
        print(f"  {name:24} {share}")
    print(f"  best of {TRIES} tries: mean {attacks.mean:.2f} and worst {attacks.worst:.2f} of {DRAWS} draws")
    report["attacks"] = {name: [share.hits, share.of] for name, share in attacks.by_way.items()}
    report["tries"] = {"mean": attacks.mean, "worst": attacks.worst}
    (ROOT / ".cache").mkdir(exist_ok=True)
    (ROOT / ".cache" / "bench-detection.json").write_text(json.dumps(report, indent=2))
    (ROOT / ".cache" / "bench-detection.svg").write_text(plot(plotted))
    print("\nwrote .cache/bench-detection.json and .cache/bench-detection.svg")
    return 0


def datasets(folder: Path) -> Iterator[Dataset]:
    """Yield the recordings that have labels and a policy."""
    yield Dataset("agentdyn", "injection.yaml", "agentdojo", agentdyn(folder))
    desks = folder / "tau_bench"
    shops = [path for path in sorted(desks.glob("retail_*.jsonl.gz")) if "act-" not in path.name]
    for label, name in (("bad_write", "{}"), ("fail", "{}, runs that failed")):
        airline = _tau(desks / "airline_gpt-4o.jsonl.gz", label)
        yield Dataset(name.format("airline"), "airline.yaml", "tau-bench", airline)
        retail = [run for path in shops for run in _tau(path, label)]
        yield Dataset(name.format("retail"), "retail.yaml", "tau-bench", retail)


def agentdyn(folder: Path) -> list[LabelledRun]:
    """Return the runs under attack and the benign ones; bad is one that did, or tried, what the attacker asked for."""
    labels = _rows(folder / "agentdyn" / "labels.jsonl")
    with gzip.open(folder / "agentdyn" / "runs.jsonl.gz") as lines:
        return [
            LabelledRun(f"agentdyn/{number}", line.rstrip(b"\n"), _turn(line, label))
            for number, (line, label) in enumerate(zip(lines, labels, strict=True))
        ]


def _turn(line: bytes, label: dict[str, Any]) -> Label:
    """Return the turn at which the attack was tried, or only whether it was."""
    at = label["attempt_msg_index"]
    if at is None:
        return bool(label["attack_attempted"])
    messages = json.loads(line)["messages"][:at]
    return int(sum(message["role"] == "assistant" for message in messages))


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _tau(path: Path, bad: str) -> list[LabelledRun]:
    labels = _rows(path.with_name(path.name.replace(".jsonl.gz", ".labels.jsonl")))
    with gzip.open(path) as lines:
        return [
            LabelledRun(f"{path.name}/{number}", line.rstrip(b"\n"), bool(label[bad]))
            for number, (line, label) in enumerate(zip(lines, labels, strict=True))
            if "bad_write" in label
        ]


def _is_bad(run: LabelledRun) -> bool:
    return run.label is not False


def score(dataset: Dataset, registry: Registry) -> list[DetectionScore]:
    """Return the score of each rule on each run, every run a session of its own."""
    policy = sg.load_policy(POLICIES / dataset.policy)
    found: list[sg.Finding] = []
    for run in dataset.runs:
        found += judged(run.line, run.name, dataset.decoder, policy, registry)
    return score_rules((rule.id for rule in policy.rules), found, {run.name: run.label for run in dataset.runs})


def reference(folder: Path, dataset: Dataset) -> list[DetectionScore]:
    """Return the score of the reference's rules for a desk, all together, by the alerts that come with the data."""
    if dataset.decoder != "tau-bench":
        return []
    alerts = _rows(folder / "tau_bench" / "reference_alerts.jsonl")
    fired = {f"{Path(one['file']).name}/{one['line']}" for one in alerts if one["rule"] not in NO_POLICY}
    bad = {run.name for run in dataset.runs if _is_bad(run)}
    fine = {run.name for run in dataset.runs} - bad
    fired &= bad | fine
    shares = [DetectionShare(len(fired & share), len(of)) for share, of in ((bad, fired), (bad, bad), (fine, fine))]
    return [
        DetectionScore(rule_id="(the reference)", precision=shares[0], recall=shares[1], benign=shares[2], delay=None)
    ]


def judged(line: bytes, name: str, decoder: str, policy: sg.Policy, registry: Registry) -> list[sg.Finding]:
    """Return what the policy finds in one run, under the run's own name."""
    events = registry.decoders[decoder]().decode(sg.Record(value=line, origin=name, position=0))
    return [msgspec.structs.replace(finding, session_id=name) for finding in sg.evaluate(events, policy)]


INJECTED: Final = "injected-call"


class AdaptiveRecall(NamedTuple):
    """The recall for each way to change an attack, and for attackers who have three tries at each run."""

    by_way: dict[str, DetectionShare]
    mean: float
    worst: float


def adaptive(folder: Path, registry: Registry) -> AdaptiveRecall:
    """Measure the recall after attacks were changed."""
    attacked = [run for run in agentdyn(folder) if _is_bad(run)]
    policy = sg.load_policy(POLICIES / "injection.yaml")
    runs: list[AttackedRun] = [json.loads(run.line) for run in attacked]
    shared = shared_paragraphs(runs)
    ways = transforms()
    caught: dict[str, list[bool]] = {name: [] for name in ("recorded", *ways)}
    dice = [Random(seed) for seed in range(DRAWS)]
    held = [0] * DRAWS  # runs in which no try of an attacker got through

    def fires(run: AttackedRun) -> bool:
        findings = judged(encode(run), "run", "agentdojo", policy, registry)
        return any(finding.rule_id == INJECTED for finding in findings)

    for run in runs:
        poison = Poison(next(iter(run["injections"].values())), shared)
        caught["recorded"].append(fires(run))
        # A way that finds nothing to change in this run is no try.
        changed = {name: other for name, way in ways.items() if (other := way(poison, run)) != run}
        answers = {name: fires(other) for name, other in changed.items()}
        for name, answer in answers.items():
            caught[name].append(answer)
        for draw, one in enumerate(dice):
            held[draw] += all(answers[name] for name in tries(one, list(answers), TRIES))
    by_way = {name: DetectionShare(sum(answers), len(answers)) for name, answers in caught.items()}
    return AdaptiveRecall(by_way, sum(held) / len(runs) / DRAWS, min(held) / len(runs))


def _as_json(one: DetectionScore) -> dict[str, Any]:
    shares = {"precision": one.precision, "recall": one.recall, "benign": one.benign}
    return {"rule": one.rule_id, "delay": one.delay} | {name: [share.hits, share.of] for name, share in shares.items()}


def plot(scores: Sequence[tuple[str, DetectionScore]]) -> str:
    """Return a picture: precision and recall of each rule, with their intervals."""
    height = 24 * len(scores) + 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" font-family="sans-serif">']
    parts += [
        f'<text x="{340 + 400 * step / 4}" y="16" font-size="11" text-anchor="middle">{step / 4:g}</text>'
        for step in range(5)
    ]
    for number, (name, one) in enumerate(scores):
        middle = 36 + 24 * number
        parts.append(f'<text x="330" y="{middle + 4}" font-size="12" text-anchor="end">{name}</text>')
        for share, colour, offset in ((one.precision, "#1b6ca8", -4), (one.recall, "#c7522a", 4)):
            if share.interval is None or share.value is None:
                continue
            low, high = (340 + 400 * bound for bound in share.interval)
            across = middle + offset
            parts.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{across}" y2="{across}" stroke="{colour}"/>')
            parts.append(f'<circle cx="{340 + 400 * share.value:.1f}" cy="{across}" r="3" fill="{colour}"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
