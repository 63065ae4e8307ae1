"""Rules learned from fine runs, tried on runs of other tasks: alarms on fine ones, and bad ones that are found.

    STREAM_GUARD_DATA=<folder> python -m tests.bench.learn [others | rules | diff | scale | spellings | poison]

Without a word, it prints the tables of docs/learning.md: fine runs with an alarm and bad runs found, by learned rules
and by hand-written ones. ``others`` does so on recordings that no rule was chosen with, ``rules`` lists the first ones
of each set, ``diff`` what one recording no longer keeps of another, ``scale`` the time for 10,000 sessions,
``spellings`` whether other names of tools give the same rules, and ``poison`` what bad sessions among the fine ones do.
It asserts nothing.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import combinations
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, Final, NamedTuple
from zlib import crc32

from msgspec.structs import replace

import stream_guard as sg
from stream_guard.judge.model import Event, ToolCall
from stream_guard.learning.candidates import Learned, RuleCandidate
from stream_guard.learning.choosing import as_policy
from stream_guard.learning.collecting import collect
from stream_guard.learning.drift import find_drift
from stream_guard.learning.learning import MOST_ALARMS, learn
from stream_guard.registry import Registry, build_registry
from stream_guard.running.batch import evaluate
from stream_guard.settings import SessionLimits
from tests.bench.detection import NO_POLICY, POLICIES
from tests.bench.packs import SPELLINGS, all_packs, respell

VARIABLE: Final = "STREAM_GUARD_DATA"
FOLDS: Final = 5
FIRST: Final = 10
FEWEST_FINE: Final = 20
OTHERS: Final = {"agentdyn": ("runs.jsonl.gz", "agentdojo"), "sentinel_steps": ("episodes.jsonl.gz", "steps")}
PARTINGS: Final = {"airline": 8, "retail": 4}
MORE_ALARMS: Final = 0.12  # about the rate of the rules of the reference
DOMAINS: Final = ("airline", "retail")
DIFFED: Final = (
    ("gpt-4.1_", "gemini-2.0-flash_0607"),
    ("gpt-4.1_", "o4-mini"),
    ("gemini-2.0-flash_0605191952", "gemini-2.0-flash_0605205805"),
)


class Run(NamedTuple):
    """One recorded run with its label."""

    name: str
    source: str  # the recording that it stands in
    task: str
    is_bad: bool
    events: Sequence[Event]


class Score(NamedTuple):
    """Runs with an alarm."""

    fine: int
    all_fine: int
    bad: int
    all_bad: int

    def __add__(self, other: object) -> Score:
        assert isinstance(other, Score)
        return Score(*(one + two for one, two in zip(self, other, strict=True)))

    def __str__(self) -> str:
        shares = ((self.fine, self.all_fine), (self.bad, self.all_bad))
        return " | ".join(f"{hit} of {total} ({hit / max(1, total):.1%})" for hit, total in shares)


def read_runs(folder: Path, domain: str, registry: Registry) -> list[Run]:
    """Return the labelled runs of a desk, of both benchmarks."""
    found: list[Run] = []
    for path in sorted((folder / "tau_bench").glob(f"{domain}_*.jsonl.gz")):
        if "act-" not in path.name:
            found += _runs(path, path.name.removesuffix(".jsonl.gz"), "tau-bench", registry)
    for path in sorted((folder / "tau2").glob(f"{domain}.simulations.jsonl.gz")):
        found += _runs(path, path.name.removesuffix(".simulations.jsonl.gz"), "tau2", registry)
    return found


def _runs(path: Path, stem: str, decoder: str, registry: Registry) -> Iterator[Run]:
    labels = [json.loads(line) for line in path.with_name(f"{stem}.labels.jsonl").read_text().splitlines()]
    with gzip.open(path) as lines:
        for number, (line, label) in enumerate(zip(lines, labels, strict=True)):
            if "bad_write" not in label and decoder == "tau-bench":
                continue  # it ended before it began
            name = f"{decoder}/{path.name}/{number}"
            record = sg.Record(value=line.rstrip(b"\n"), origin=name, position=0)
            events = [replace(event, session_id=name) for event in registry.decoders[decoder]().decode(record)]
            yield Run(name, stem, str(label["task_id"]), bool(label["fail"]), events)


def fold(task: str, seed: int) -> int:
    """Return the fold of a task."""
    return crc32(f"{seed}/{task}".encode()) % FOLDS


def learn_from(runs: Iterable[Run], registry: Registry, **options: Any) -> Learned:
    """Learn from runs."""
    kept = list(runs)
    return learn(lambda: (event for run in kept for event in run.events), registry, SessionLimits(), **options)


def fired(runs: Iterable[Run], policy: sg.Policy, *, shadow: bool) -> set[str]:
    """Return the runs with a finding."""
    return {run.name for run in runs if any(shadow or not finding.shadow for finding in evaluate(run.events, policy))}


def score(runs: Sequence[Run], alarmed: set[str]) -> Score:
    """Return how many fine and bad runs have an alarm."""
    bad = [run.name for run in runs if run.is_bad]
    fine = [run.name for run in runs if not run.is_bad]
    return Score(len(alarmed & set(fine)), len(fine), len(alarmed & set(bad)), len(bad))


def held_out(
    runs: Sequence[Run], registry: Registry, seed: int, most_alarms: float = MOST_ALARMS
) -> tuple[Score, list[Learned]]:
    """Return the score of learned rules on tasks that they were not learned from."""
    total, learned = Score(0, 0, 0, 0), []
    for number in range(FOLDS):
        rest = [run for run in runs if fold(run.task, seed) != number and not run.is_bad]
        test = [run for run in runs if fold(run.task, seed) == number]
        outcome = learn_from(rest, registry, most_alarms=most_alarms)
        policy = as_policy((lesson.candidate for lesson in outcome.proposed), registry)
        total += score(test, fired(test, policy, shadow=True))
        learned.append(outcome)
    return total, learned


def compare(folder: Path, registry: Registry) -> None:
    """Print the table of learned and hand-written rules."""
    print("| runs | rules | fine runs with an alarm | bad runs found |")
    print("| --- | --- | --- | --- |")
    for domain in DOMAINS:
        runs = read_runs(folder, domain, registry)
        for most_alarms in (MOST_ALARMS, MORE_ALARMS):
            whole = Score(0, 0, 0, 0)
            for seed in range(PARTINGS[domain]):
                total, learned = held_out(runs, registry, seed, most_alarms)
                said = sum(one.alarmed for one in learned) / max(1, sum(one.judged for one in learned))
                print(f"| {domain} | learned {most_alarms}, parted {seed + 1} (it expects {said:.1%}) | {total} |")
                whole += total
            print(f"| {domain} | learned {most_alarms}, all partings | {whole} |", flush=True)
        packs = fired(runs, all_packs(), shadow=False)
        print(f"| {domain} | packs | {score(runs, packs)} |")
        own = fired(runs, sg.load_policy(POLICIES / f"{domain}.yaml"), shadow=True)
        print(f"| {domain} | written after its policy, with these runs at hand | {score(runs, own)} |")
        for name, left_out in {"about the policy": NO_POLICY, "all": frozenset[str]()}.items():
            theirs = reference(folder, runs, left_out)
            print(f"| {domain} | of the reference, {name} | {score(runs, set().union(*theirs))} |")
            few = sum((quiet_of(runs, theirs, seed) for seed in range(PARTINGS[domain])), start=Score(0, 0, 0, 0))
            print(f"| {domain} | of the reference, {name}, quiet on the runs that are learned from | {few} |")
            most = best_of(runs, theirs, MOST_ALARMS)
            print(f"| {domain} | of the reference, {name}, those that find most at so few alarms | {most} |")


def others(folder: Path, registry: Registry) -> None:
    """Print what learned rules do in two partings of each suite of other recordings."""
    for name, (file, decoder) in OTHERS.items():
        suites: defaultdict[str, list[Run]] = defaultdict(list)
        for run in _labelled(folder / name / file, decoder, registry):
            suites[run.source].append(run)
        whole = Score(0, 0, 0, 0)
        for suite, runs in sorted(suites.items()):
            if sum(not run.is_bad for run in runs) >= FEWEST_FINE:
                total = held_out(runs, registry, 0)[0] + held_out(runs, registry, 1)[0]
                print(f"| {name} | {suite} | {total} |", flush=True)
                whole += total
        print(f"| {name} | all | {whole} |")


def _labelled(path: Path, decoder: str, registry: Registry) -> Iterator[Run]:
    """Yield healthy and faulty episodes, and runs without an attack and with one that succeeded, of each suite."""
    labels = [json.loads(line) for line in path.with_name("labels.jsonl").read_text().splitlines()]
    with gzip.open(path) as lines:
        for number, (line, label) in enumerate(zip(lines, labels, strict=True)):
            attacked = label.get("attack") not in {None, "none", ""}
            is_bad = bool(label.get("failure_class") or label.get("attack_success"))
            if attacked and not is_bad:
                continue  # neither fine nor bad
            name = f"{decoder}/{number}"
            record = sg.Record(value=line.rstrip(b"\n"), origin=name, position=0)
            events = [replace(event, session_id=name) for event in registry.decoders[decoder]().decode(record)]
            suite, task = label.get("suite") or label["corpus"], label.get("user_task", name)
            yield Run(name, suite, task, is_bad, events)


def reference(folder: Path, runs: Sequence[Run], left_out: Set[str]) -> list[set[str]]:
    """Return the runs in which each rule of the reference for the desk fired, by the alerts that come with the data."""
    names = {run.name for run in runs}
    fired_in: defaultdict[str, set[str]] = defaultdict(set)
    for line in (folder / "tau_bench" / "reference_alerts.jsonl").read_text().splitlines():
        alert = json.loads(line)
        path = Path(alert["file"])
        name = f"{'tau2' if path.parent.name == 'tau2' else 'tau-bench'}/{path.name}/{alert['line']}"
        if name in names and alert["rule"] not in left_out:
            fired_in[alert["rule"]].add(name)
    return list(fired_in.values())


def quiet_of(runs: Sequence[Run], rules: Sequence[set[str]], seed: int) -> Score:
    """Return the score of the rules with the fewest alarms on fine runs of other tasks, as learned ones are chosen."""
    total = Score(0, 0, 0, 0)
    for number in range(FOLDS):
        known = {run.name for run in runs if fold(run.task, seed) != number and not run.is_bad}
        test = [run for run in runs if fold(run.task, seed) == number]
        fired_in: set[str] = set()
        for rule in sorted(rules, key=lambda names: len(names & known)):
            if len((fired_in | rule) & known) <= MOST_ALARMS * len(known):
                fired_in |= rule
        total += score(test, fired_in)
    return total


def best_of(runs: Sequence[Run], rules: Sequence[set[str]], most_alarms: float) -> Score:
    """Return the score of those rules that find most bad runs within a share of alarms, picked after the fact."""
    chosen = (one for count in range(len(rules) + 1) for one in combinations(rules, count))
    scores = [score(runs, set().union(*one)) for one in chosen]
    return max((one for one in scores if one.fine <= most_alarms * one.all_fine), key=lambda one: (one.bad, -one.fine))


def first_rules(folder: Path, registry: Registry) -> None:
    """Print the first rules that are proposed from all fine runs."""
    for domain in DOMAINS:
        runs = read_runs(folder, domain, registry)
        learned = learn_from([run for run in runs if not run.is_bad], registry)
        print(f"\n{domain}: {learned.sessions} sessions of {learned.tasks} tasks, {len(learned.proposed)} rules")
        for lesson in learned.proposed[:FIRST]:
            found = evaluate_all(runs, lesson.candidate, registry)
            print(f"| {lesson.candidate.words} | {lesson.candidate.support} | {len(lesson.broken)} | {found} |")


def evaluate_all(runs: Sequence[Run], candidate: RuleCandidate, registry: Registry) -> Score:
    """Return the score of one rule on all runs."""
    return score(runs, fired(runs, as_policy([candidate], registry), shadow=True))


def changes(folder: Path, registry: Registry) -> None:
    """Print what runs of one model no longer keep of those of another, all runs of both, fine or not."""
    runs = read_runs(folder, "retail", registry)
    sources = {source: [run for run in runs if run.source == source] for source in {run.source for run in runs}}
    for old, new in DIFFED:
        before = next(found for source, found in sources.items() if old in source)
        now = next(found for source, found in sources.items() if new in source)
        drift = find_drift(
            learn_from(before, registry), [event for run in now for event in run.events], registry, SessionLimits()
        )
        print(f"\n{old} ({drift.before} runs) to {new} ({drift.now} runs), {drift.rules} rules")
        for change in drift.not_kept:
            was = len(change.lesson.broken | change.lesson.alarms)
            print(f"| no longer kept: {change.lesson.candidate.words} | {was} | {len(change.broken)} |")
        for tool in drift.tools:
            print(f"| runs that call {tool.tool} | {tool.before} | {tool.now} |")


def scale(folder: Path, registry: Registry) -> None:
    """Print the time for more and more sessions: the fine runs of a desk, over and over."""
    fine = [run for run in read_runs(folder, "retail", registry) if not run.is_bad]
    for count in (2500, 10_000):

        def read(count: int = count) -> Iterator[Event]:
            for number in range(count):
                for event in fine[number % len(fine)].events:
                    yield replace(event, session_id=f"s{number}")

        began = process_time()
        learned = learn(read, registry, SessionLimits())
        print(f"| {learned.sessions:,} | {len(learned.lessons)} | {process_time() - began:.0f} s |", flush=True)


def spellings(folder: Path, registry: Registry) -> None:
    """Print under which spellings of the tools the proposed rules are the same."""
    for domain in DOMAINS:
        fine = [run for run in read_runs(folder, domain, registry) if not run.is_bad]
        proposed: dict[str, list[RuleCandidate]] = {}
        for name, spell in SPELLINGS.items():
            spelled = [run._replace(events=[respell(event, spell) for event in run.events]) for run in fine]
            proposed[name] = [lesson.candidate for lesson in learn_from(spelled, registry).proposed]
        for name, found in proposed.items():
            same = "the same" if found == proposed["as recorded"] else "OTHERS"
            print(f"| {domain} | `{name}` | {len(found)} | {same} |")


def poison(folder: Path, registry: Registry) -> None:
    """Print alarms on fine runs of other tasks when one learned session in twenty is a bad one."""
    for domain in DOMAINS:
        runs = read_runs(folder, domain, registry)
        for name, spoil in POISONS.items():
            total, odd, planted = Score(0, 0, 0, 0), 0, 0
            for number in range(FOLDS):
                rest = [run for run in runs if fold(run.task, 0) != number]
                test = [run for run in runs if fold(run.task, 0) == number]
                fine = [run for run in rest if not run.is_bad]
                bad = spoil(rest, len(fine) // 19, Random(number))
                learned = learn_from([*fine, *bad], registry)
                policy = as_policy((lesson.candidate for lesson in learned.proposed), registry)
                total += score(test, fired(test, policy, shadow=True))
                names = {run.name for run in bad}
                odd, planted = odd + sum(one.session_id in names for one in learned.odd), planted + len(bad)
            print(f"| {domain} | {name} | {total} | {odd} of {planted} |", flush=True)


def _failed(runs: Sequence[Run], count: int, dice: Random) -> list[Run]:
    return dice.sample([run for run in runs if run.is_bad], count)


def _shuffled(runs: Sequence[Run], count: int, dice: Random) -> list[Run]:
    """Fine runs whose events come in any order."""
    chosen = dice.sample([run for run in runs if not run.is_bad], count)
    return [
        run._replace(
            name=f"shuffled/{number}",
            events=[
                replace(event, session_id=f"shuffled/{number}") for event in dice.sample(run.events, len(run.events))
            ],
        )
        for number, run in enumerate(chosen)
    ]


def _habit(runs: Sequence[Run], count: int, dice: Random) -> list[Run]:
    """Runs that always do the same: the rarest tool, and before it one that has nothing to do with it."""
    facts = collect(event for run in runs for event in run.events)
    called = Counter(call.tool for session in facts.sessions for call in session.calls)
    rare, common = min(called, key=lambda tool: called[tool]), max(called, key=lambda tool: called[tool])
    return [
        Run(
            f"habit/{number}",
            "habit",
            "habit",
            True,
            [
                ToolCall(session_id=f"habit/{number}", tool=tool, args={"x": f"{dice.random()}"}, call_id=tool)
                for tool in (common, rare)
            ],
        )
        for number in range(count)
    ]


POISONS: Final[dict[str, Callable[[Sequence[Run], int, Random], list[Run]]]] = {
    "nothing": lambda _runs, _count, _dice: [],
    "runs that failed": _failed,
    "runs in any order": _shuffled,
    "a habit about a rare tool": _habit,
}


def main() -> int:
    """Print what was asked for."""
    folder = os.environ.get(VARIABLE)
    if not folder or not (Path(folder) / "tau_bench").is_dir():
        print(f"{VARIABLE} names no folder with tau_bench in it; there is nothing to measure", file=sys.stderr)
        return 1
    parts: dict[str, Callable[[Path, Registry], None]] = {
        "": compare, "others": others, "rules": first_rules, "diff": changes, "scale": scale, "spellings": spellings,
        "poison": poison
    }  # fmt: skip
    asked = (sys.argv[1:] or [""])[0]
    if asked not in parts:
        print(f"nothing is called {asked}; say one of {', '.join(filter(None, parts))}, or nothing", file=sys.stderr)
        return 2
    began = process_time()
    parts[asked](Path(folder), build_registry())
    print(f"{process_time() - began:.0f} s of CPU time", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
