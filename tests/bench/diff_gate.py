"""``python -m tests.bench.diff_gate``: how often the gate of diff is right, on recordings of real agents.

Reads tau_bench and agentdyn in the folder that STREAM_GUARD_DATA names. Everything is drawn by seeds: two runs print
the same table. ``--keep`` writes it down.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, product
from math import ceil, sqrt
from pathlib import Path
from typing import Any, Final

import msgspec
from stream_guard_diff import diff
from stream_guard_diff.comparison import DiffReport, compare_rules
from stream_guard_diff.deciding import GateAnswer, decide
from stream_guard_diff.gate import LEVEL
from stream_guard_diff.judging import Thresholds, measure_noise
from stream_guard_diff.pairing import pair_trails
from stream_guard_diff.trails import SessionTrail, read_trails

from stream_guard.judge.counts import Counts
from stream_guard.judge.model import Event
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from tests.bench.diff_plants import (
    FORBIDDEN,
    PLANTS,
    Plant,
    Session,
    count_tokens,
    give_values_of_others,
    is_still_agreed,
    plant_into,
    skip_confirmation,
    skip_question,
)

VARIABLE: Final = "STREAM_GUARD_DATA"
KEPT: Final = Path(__file__).parent / "data" / "diff_gate.json"
SIZES: Final = (20, 50, 100)
ROUNDS: Final = 12  # comparisons of each agent, or each team, with itself, for each size
PLANTED: Final = 2  # comparisons of each team for each fault; all of them of one team, where only one can have it
CONSENT: Final = 10  # comparisons of each team for each way to skip a confirmation
SKIPPED: Final = "confirmation skipped"
FOREIGN: Final = "value of another task"
QUESTION: Final = "last question skipped"
POLICY: Final = f"rules: [{{id: no-transfer, kind: no_call, params: {{tool: {FORBIDDEN}}}, severity: error}}]"
SHOWN_BY: Final = {
    SKIPPED: "skipped_steps",
    "policy broken": "rules",
    "call repeated": "repeats",
    "refusal": "refusals",
    "twice the tokens": "tokens",
    "tool renamed": "new_tools",
    "argument renamed": "arguments",
    "argument wrong": "odd_values",
    "value exchanged": "task_values",
    FOREIGN: "task_values",
}
BETTER: Final = (SKIPPED, "policy broken", "call repeated", "refusal", "twice the tokens")

Tasks = dict[str, list[Session]]  # the sessions of one agent by task
Row = tuple[str, dict[str, Any]]


def read_agents(folder: Path) -> dict[str, Tasks]:
    """Return the agents that ran a task more than once, each with its sessions by task."""
    agents: defaultdict[str, Tasks] = defaultdict(dict)
    decoders = build_registry().decoders
    for file in sorted((folder / "tau_bench").glob("*.jsonl.gz")):
        if file.name.startswith(("airline_gpt-4o", "retail_tool-calling")):
            agent = "tau " + file.name.split(".jsonl")[0].rpartition("_0")[0].replace("retail_tool-calling-", "")
            agent = agent if "airline" not in file.name else "tau airline gpt-4o"
            decoder = decoders["tau-bench"]()
            for raw, line in _lines(file):
                _add(agents[agent], f"{file.name[:3]} {raw['task_id']}", decoder.decode(Record(line, file.name)))
    decoder = decoders["agentdojo"]()
    for raw, line in _lines(folder / "agentdyn" / "runs.jsonl.gz"):
        task = f"{raw['suite_name']}/{raw['user_task_id']}"
        _add(agents[f"dyn {raw['pipeline_name']}"], task, decoder.decode(Record(line, "runs")))
    return dict(agents)


def _lines(file: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    with gzip.open(file, "rb") as lines:
        for line in lines:
            yield json.loads(line), line.strip()


def _add(tasks: Tasks, task: str, events: Sequence[Event]) -> None:
    if events:
        labelled = [msgspec.structs.replace(event, labels={"scenario": task}) for event in events]
        tasks.setdefault(task, []).append(count_tokens(labelled))


def join(agents: dict[str, Tasks]) -> dict[str, Tasks]:
    """Return teams of two agents each: one alone has not run its tasks often enough for 100 sessions a side."""
    names = [name for name in agents if name.startswith("tau")], [name for name in agents if name.startswith("dyn")]
    teams: dict[str, Tasks] = {}
    for family in names:
        for first, second in zip(family[::2], family[1::2], strict=False):
            teams[f"{first} and {second}"] = {
                f"{agent} {task}": [
                    [msgspec.structs.replace(event, labels={"scenario": f"{agent} {task}"}) for event in one]
                    for one in runs
                ]
                for agent in (first, second)
                for task, runs in agents[agent].items()
            }
    return teams


def split(tasks: Tasks, size: int, drawn: random.Random) -> tuple[list[Session], list[Session]]:
    """Return two sets of sessions of one agent: other trials of the same tasks, as many as there are up to ``size``."""
    pools = {task: drawn.sample(runs, len(runs)) for task, runs in sorted(tasks.items())}
    sides: tuple[list[Session], list[Session]] = ([], [])
    names = drawn.sample(sorted(pools), len(pools))
    while len(sides[0]) < size and any(len(pools[name]) > 1 for name in names):
        for name in names:
            if len(pools[name]) > 1 and len(sides[0]) < size:
                sides[0].append(pools[name].pop())
                sides[1].append(pools[name].pop())
    return sides


def ask(old: Sequence[Session], new: Sequence[Session], policy: Policy | None) -> tuple[GateAnswer, DiffReport]:
    """Return what the gate answers. Turns are not aligned: the measured gate does not look at them."""
    runs = [event for one in old for event in one], [event for one in new for event in one]
    sides = read_trails(runs[0]), read_trails(runs[1])
    pairing = pair_trails(*sides)
    changes = compare_rules([runs[0]], [sides[0]], runs[1], sides[1], pairing, policy, Counts())
    noise = measure_noise(pairing, *sides, changes.broken, policy, Thresholds())
    report = DiffReport(
        severity="none", axes=(), first_divergence=None, divergences=(), divergence_count=0, sessions=(), noise=noise
    )
    return decide(report), report


def likely_shares(right: int, of: int) -> tuple[float, float]:
    """Return between which shares the true one is, with a confidence of 95 % (Wilson's interval)."""
    z = 1.96
    middle = (right + z * z / 2) / (of + z * z)
    apart = z / (of + z * z) * sqrt(right * (of - right) / of + z * z / 4)
    return round(max(0.0, middle - apart), 3), round(min(1.0, middle + apart), 3)


def measure_null(agents: dict[str, Tasks], policy: Policy, rounds: int) -> Iterator[Row]:
    """Compare each agent with itself, and for the largest size each team."""
    for size in SIZES:
        passed, why = [], Counter[str]()
        for name, tasks in (join(agents) if size > 50 else agents).items():
            for number in range(rounds):
                sides = split(tasks, size, random.Random(f"null {name} {size} {number}"))
                if len(sides[0]) >= min(size, 20):
                    answer, report = ask(*sides, policy)
                    passed.append(not answer.trips)
                    why.update(axis.name for axis in report.noise.axes if axis.blocks)
        low, high = likely_shares(sum(passed), len(passed))
        yield f"null {size}", {"right": sum(passed), "of": len(passed), "from": low, "to": high, "why_not": dict(why)}


def measure_plants(agents: dict[str, Tasks], policy: Policy, rounds: int, names: Sequence[str]) -> Iterator[Row]:
    """Plant faults into the candidate, then into the baseline alone: what is worse blocks, what is better does not."""
    for fault in names:
        for share in (0.3, 0.1, -0.3):
            if share < 0 and fault not in BETTER:
                continue
            right, known, why = [], [], Counter[str]()
            able = [name for name in agents if _can_have(fault, name, agents[name])]
            for name in able:
                tasks = agents[name]
                for number in range(ceil(rounds * len(agents) / len(able))):
                    drawn = random.Random(f"{fault} {name} {number}")
                    old, new = split(tasks, 100, drawn)
                    plant = _plant_of(fault, new)
                    if share < 0:
                        old = plant_into(old, plant, -share, drawn)
                    else:
                        new = plant_into(new, plant, share, drawn)
                    answer, report = ask(old, new, policy)
                    right.append(answer.trips == (share > 0))
                    known.append(best_alone(report, SHOWN_BY[fault]) <= LEVEL)
                    why.update(axis.name for axis in report.noise.axes if axis.blocks)
            word = f"{share:.0%}" if share > 0 else "gone"
            row = {"right": sum(right), "of": len(right), "why": dict(why.most_common(4))}
            yield f"{fault} {word}", row | ({"best_item_alone": sum(known)} if share > 0 else {})


def _plant_of(fault: str, sessions: Sequence[Session]) -> Plant:
    return give_values_of_others(sessions) if fault == FOREIGN else PLANTS[fault]


def _can_have(fault: str, name: str, tasks: Tasks) -> bool:
    """Whether a team has enough sessions for a fault: some hardly ever make a call with consequences."""
    if fault == SKIPPED:  # in the others there is one message of the user, and nothing to confirm
        return name.startswith("tau")
    drawn = random.Random(f"able {fault} {name}")
    _, new = split(tasks, 100, drawn)
    made = plant_into(new, _plant_of(fault, new), 0.3, drawn)
    return sum(one is not other for one, other in zip(new, made, strict=True)) >= round(0.3 * len(new))


def measure_consent(agents: dict[str, Tasks], policy: Policy, rounds: int) -> Iterator[Row]:
    """Skip a confirmation, or its last question alone, in every team that tau can form; say how often a yes is left.

    The teams are that of agents which ran tasks more than once, and all agents that ran the same tasks, models mixed.
    """
    repeated = {name: agents[name] for name in _that_repeat(agents) if name.startswith("tau")}
    teams = {"": next(iter(join(repeated).values())), ", models mixed": mix(agents)}
    for (fault, plant), (team, tasks) in product(
        {SKIPPED: skip_confirmation, QUESTION: skip_question}.items(), teams.items()
    ):
        for share in (0.3, 0.1):
            seen, planted, left = 0, 0, 0
            for number in range(rounds):
                drawn = random.Random(f"{fault}{team} {number}")
                old, new = split(tasks, 100, drawn)
                made = plant_into(new, plant, share, drawn)
                changed = [pair for pair in zip(new, made, strict=True) if pair[0] is not pair[1]]
                planted, left = planted + len(changed), left + sum(is_still_agreed(*pair) for pair in changed)
                seen += ask(old, made, policy)[0].trips
            row = {"right": seen, "of": rounds, "planted": planted, "still_agreed": left}
            yield f"consent: {fault}{team} {share:.0%}", row


def mix(agents: dict[str, Tasks]) -> Tasks:
    """Return the tasks that several tau agents ran, each with the sessions of all of them."""
    tasks: defaultdict[str, list[Session]] = defaultdict(list)
    for name, ran in agents.items():
        if name.startswith("tau") and "airline" not in name:
            for task, runs in ran.items():
                tasks[task] += runs
    return dict(tasks)


def _that_repeat(agents: dict[str, Tasks]) -> list[str]:
    return [name for name, tasks in agents.items() if sum(len(runs) > 1 for runs in tasks.values()) >= 10]


def best_alone(report: DiffReport, axis: str) -> float:
    """Return the chance of the strongest item of an axis: what a test would see that knows where to look.

    It is picked after the fact and corrected for nothing, so no honest test sees more in these sessions.
    """
    return min((found.alone for found in report.noise.axes if found.name == axis), default=1.0)


def measure_models(agents: dict[str, Tasks], policy: Policy) -> dict[str, Any]:
    """Compare different models on the same tasks: each pair of neighbours is another agent, and is to be reported."""
    rows: dict[str, Any] = {}
    for family in ("tau ", "dyn "):
        names = [name for name in agents if name.startswith(family) and "airline" not in name]
        right, why = [], Counter[str]()
        for first, second in pairwise(names):
            shared = sorted(agents[first].keys() & agents[second].keys())
            sides = [[agents[name][task][0] for task in shared] for name in (first, second)]
            _, report = ask(sides[0], sides[1], policy)
            changed = [axis.name for axis in report.noise.axes if axis.verdict in ("worse", "changed")]
            right.append(bool(changed))
            why.update(changed)
        rows[f"another model, {family.strip()}"] = {
            "right": sum(right),
            "of": len(right),
            "why": dict(why.most_common(6)),
        }
    return rows


def measure_pairing(agents: dict[str, Tasks]) -> dict[str, Any]:
    """Pair trials of the same tasks in six conditions, and count the pairs that are of one task."""
    rows: dict[str, Any] = {}
    for condition, (before, after) in {
        "renamed": (1, 1),
        "shuffled": (1, 1),
        "dropped": (1, 1),
        "two trials a task": (2, 2),
        "three trials against one": (3, 1),
        "no labels": (1, 1),
    }.items():
        right = total = 0
        for name, tasks in agents.items():
            drawn = random.Random(f"{condition} {name}")
            runs = {
                task: drawn.sample(found, len(found)) for task, found in tasks.items() if len(found) >= before + after
            }
            if len(runs) < 10:
                continue
            old = [(task, one) for task, found in runs.items() for one in found[:before]]
            new = [(task, one) for task, found in runs.items() for one in found[before : before + after]]
            if condition != "renamed":
                new = drawn.sample(new, len(new))
            if condition == "dropped":
                old, new = old[: len(old) * 4 // 5], new[: len(new) * 4 // 5]
            labels = condition != "no labels"
            found_right, found_total = _right_pairs(old, new, labels=labels)
            right, total = right + found_right, total + found_total
        rows[f"pairing, {condition}"] = {"right": right, "of": total}
    return rows


def _right_pairs(
    old: Sequence[tuple[str, Session]], new: Sequence[tuple[str, Session]], *, labels: bool
) -> tuple[int, int]:
    def trails(side: Sequence[tuple[str, Session]], word: str) -> list[SessionTrail]:
        made = []
        for number, (_, session) in enumerate(side):
            name = f"{word}{number}"
            events = [msgspec.structs.replace(event, session_id=name) for event in session]
            if not labels:
                events = [msgspec.structs.replace(event, labels={}) for event in events]
            made += read_trails(events)
        return made

    found = pair_trails(trails(old, "a"), trails(new, "b"))
    pairs = [(old[first][0], new[second][0]) for stratum in found.strata for first, second in stratum.pairs]
    tasks = Counter(task for task, _ in old), Counter(task for task, _ in new)
    possible = sum(min(count, tasks[1][task]) for task, count in tasks[0].items())
    return sum(first == second for first, second in pairs), max(possible, len(pairs))


def measure_time(agents: dict[str, Tasks], policy: Policy) -> dict[str, Any]:
    """Return the CPU seconds of the whole diff, alignment and all, of as many sessions as an agent has up to 100."""
    rows: dict[str, Any] = {}
    registry = build_registry()
    for name in ("tau airline gpt-4o", "dyn gpt-5.1-2025-11-13"):
        old, new = split(agents[name], 100, random.Random("time"))
        sides = [[event for one in side for event in one] for side in (old, new)]
        began = time.process_time()
        diff(sides[0], sides[1], axes=registry.axes, policy=policy)
        rows[f"time, {name}"] = {"sessions": len(old), "cpu_seconds": round(time.process_time() - began, 2)}
    return rows


def _show(name: str, row: dict[str, Any]) -> None:
    share = f"{row['right'] / max(1, row['of']):6.1%}" if "of" in row else ""
    print(f"{name:34} {share} {json.dumps(row)}", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Print the table, or the parts that are named: pairing, models, time, null, plants, consent; of plants which."""
    folder = Path(os.environ.get(VARIABLE) or "missing")
    if not (folder / "tau_bench").is_dir():
        print(f"{VARIABLE} names no folder with tau_bench and agentdyn in it", file=sys.stderr)
        return 2
    agents = read_agents(folder)
    repeated = {name: agents[name] for name in _that_repeat(agents)}
    policy = load_policy(POLICY, build_registry(), file="policy.yaml")
    parts: dict[str, Callable[[], Iterable[Row]]] = {
        "pairing": lambda: measure_pairing(repeated).items(),
        "models": lambda: measure_models(agents, policy).items(),
        "time": lambda: measure_time(agents, policy).items(),
        "null": lambda: measure_null(repeated, policy, ROUNDS),
        "plants": lambda: measure_plants(join(repeated), policy, PLANTED, faults or list(SHOWN_BY)),
        "consent": lambda: measure_consent(agents, policy, CONSENT),
    }
    faults = [one for one in arguments if one in SHOWN_BY]
    for name in [one for one in arguments if one in parts] or parts:
        for row, numbers in parts[name]():
            _show(row, numbers)
            if "--keep" in arguments:
                kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
                KEPT.write_text(json.dumps(kept | {row: numbers}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
