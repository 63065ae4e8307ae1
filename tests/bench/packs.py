"""Measure the policy packs on recordings of real agents: alerts on sessions that went well, and what was caught.

STREAM_GUARD_DATA=<folder> python -m tests.bench.packs

Prints the tables of docs/packs.md, as Markdown: figures only, nothing of the recordings.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

from msgspec.structs import replace

from stream_guard.errors import DecodeError
from stream_guard.judge.model import Event, GateDecision, ToolCall, ToolResult, Turn
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.policy.packs import read_pack
from stream_guard.ports import Record
from stream_guard.registry import Registry, build_registry
from stream_guard.running.batch import evaluate
from stream_guard.sources import open_source

VARIABLE = "STREAM_GUARD_DATA"
BENIGN = "went well"
MOST_BENIGN = 0.02
"""The share of sessions that went well and may have an alert of a pack; a rule above it is in shadow mode."""

Group = Callable[[Mapping[str, Any]], str]


class Recordings(NamedTuple):
    """Recordings of one sort of agent, and how their labels are read."""

    name: str
    pattern: str
    group: Group | None = None  # from the label of a session to its group; without labels, all went well


def _agentdyn(label: Mapping[str, Any]) -> str:
    if label["attack"] in (None, "none", ""):
        return BENIGN
    return "attack succeeded" if label["attack_success"] else "attack failed"


def _tau(label: Mapping[str, Any]) -> str:
    return "task failed" if label.get("fail") else BENIGN


def _steps(label: Mapping[str, Any]) -> str:
    return str(label["failure_class"] or BENIGN)


SETS = (
    Recordings("agentdyn", "agentdyn/runs.jsonl.gz", _agentdyn),
    Recordings("claude_code", "claude_code/replay.jsonl.gz"),
    Recordings("claude_code, long", "claude_code/sessions/*.jsonl.gz"),
    Recordings("tau_bench", "tau_bench/*.jsonl.gz", _tau),
    Recordings("tau2", "tau2/*.simulations.jsonl.gz", _tau),
    Recordings("sentinel_steps", "sentinel_steps/episodes.jsonl.gz", _steps),
    Recordings("langfuse_export", "langfuse_export/traces.jsonl.gz"),
    Recordings("trail_otel", "trail_otel/traces.jsonl.gz", lambda _: "faulty"),
)


def _camel(tool: str) -> str:
    return "Acme" + "".join(word[:1].upper() + word[1:] for word in tool.replace("-", "_").split("_"))


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as recorded": lambda tool: tool,
    "AcmeSendEmail": _camel,
    "mcp__acme__send_email": lambda tool: f"mcp__acme__{tool}",
    "acme.send_email": lambda tool: f"acme.{tool}",
}


def respell(event: Event, spell: Callable[[str], str]) -> Event:
    """Return the event with other names for its tools."""
    if isinstance(event, ToolCall | ToolResult | GateDecision):
        return replace(event, tool=spell(event.tool)) if event.tool else event
    blocks = event.response.get("content") if isinstance(event, Turn) else None
    if not isinstance(event, Turn) or not isinstance(blocks, list):
        return event
    changed = [
        {**block, "name": spell(block["name"])}
        if isinstance(block, dict) and isinstance(block.get("name"), str)
        else block
        for block in blocks
    ]
    return replace(event, response={**event.response, "content": changed})


class Measured(NamedTuple):
    """What all packs together found in one set: sessions by group, and sessions with findings by rule and group."""

    sessions: Mapping[str, set[str]]
    fired: Mapping[str, Mapping[str, set[str]]]
    microseconds: float = 0.0  # CPU time an event, to judge it


@cache
def registry() -> Registry:
    """Return what is installed."""
    return build_registry()


def rules_of() -> dict[str, list[str]]:
    """Return the ids of the rules of each pack."""
    return {name: [rule["id"] for rule in read_pack(pack)["rules"]] for name, pack in registry().policy_packs.items()}


def all_packs() -> Policy:
    """Return a policy of all packs."""
    return load_policy(json.dumps({"packs": list(registry().policy_packs)}), registry())


def measure(folder: Path, one: Recordings, policy: Policy, spelling: str = "as recorded") -> Measured:
    """Judge the sessions of a set."""
    spell = SPELLINGS[spelling]
    paths = sorted(folder.glob(one.pattern))
    return judge(
        (
            [([respell(event, spell) for event in found], group) for found, group in labelled(path, one.group)]
            for path in paths
        ),
        policy,
    )


def judge(files: Iterable[Iterable[tuple[Sequence[Event], str]]], policy: Policy) -> Measured:
    """Judge sessions with their groups, those of one file after those of another."""
    sessions: defaultdict[str, set[str]] = defaultdict(set)
    fired: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    group_of: dict[str, str] = {}
    count, seconds = 0, 0.0
    for file in files:
        events: list[Event] = []
        for found, group in file:
            events += found
            group_of |= {event.session_id: group for event in found}
        began = process_time()
        for finding in evaluate(events, policy):
            fired[finding.rule_id][group_of[finding.session_id]].add(finding.session_id)
        count, seconds = count + len(events), seconds + process_time() - began
    for session, group in group_of.items():
        sessions[group].add(session)
    return Measured(sessions, fired, seconds / max(1, count) * 1e6)


def labelled(path: Path, group: Group | None) -> Iterator[tuple[Sequence[Event], str]]:
    """Yield the events of each record with the group of its session; labels stand in the order of the records."""
    labels = _labels(path) if group is not None else []
    decoder: Any = registry().decoders["auto"]()
    for number, record in enumerate(_records(path)):
        label = group(labels[number]) if group is not None else BENIGN
        try:
            yield decoder.decode(record), label
        except DecodeError:
            continue  # counted by tests.reports.formats_counts
    yield decoder.finish(), BENIGN


def _labels(path: Path) -> list[dict[str, Any]]:
    stem = path.name.removesuffix(".jsonl.gz").removesuffix(".simulations")
    beside = path.with_name(f"{stem}.labels.jsonl")
    lines = (beside if beside.exists() else path.with_name("labels.jsonl")).read_text().splitlines()
    return [json.loads(line) for line in lines]


def _records(path: Path) -> Iterator[Record]:
    source = open_source(str(path))
    yield from (record for record in source if record is not None)
    source.close()


def tables(folder: Path) -> str:
    """Return, for each pack, a table of all sets, and below it one of its rules that are in shadow mode."""
    policy = all_packs()
    shadow = {spec.id for spec in policy.rules if spec.shadow}
    found = {one.name: measure(folder, one, policy) for one in SETS}
    parts: list[str] = []
    for pack, ids in rules_of().items():
        sent = [rule for rule in ids if rule not in shadow]
        parts += [f"### {pack}", "", *_table("recordings", [(name, found[name], sent) for name in found]), ""]
        quiet = [(f"`{rule}` on {name}", found[name], [rule]) for rule in ids if rule in shadow for name in found]
        quiet = [row for row in quiet if any(_hit(*row[1:], group) for group in row[1].sessions)]
        if quiet:
            parts += ["In shadow mode:", "", *_table("rule", quiet), ""]
    return "\n".join(parts).rstrip()


def benign_shares(folder: Path) -> dict[tuple[str, str], float]:
    """Return the share of sessions that went well and have an alert, by pack and set."""
    policy = all_packs()
    shadow = {spec.id for spec in policy.rules if spec.shadow}
    shares: dict[tuple[str, str], float] = {}
    for one in SETS:
        measured = measure(folder, one, policy)
        total = len(measured.sessions.get(BENIGN, ()))
        for pack, ids in rules_of().items():
            hit = _hit(measured, [rule for rule in ids if rule not in shadow], BENIGN)
            shares[pack, one.name] = len(hit) / total if total else 0.0
    return shares


def _table(heading: str, lines: Iterable[tuple[str, Measured, Sequence[str]]]) -> Iterator[str]:
    yield f"| {heading} | sessions | went well, with a finding | caught |"
    yield "| --- | --- | --- | --- |"
    for name, measured, rules in lines:
        sessions = sum(map(len, measured.sessions.values()))
        groups = [group for group in sorted(measured.sessions) if group != BENIGN]
        caught = [f"{group}: {_share(measured, rules, group)}" for group in groups if _hit(measured, rules, group)]
        shown = "; ".join(caught) or ("nothing" if groups else "")
        yield f"| {name} | {sessions} | {_share(measured, rules, BENIGN)} | {shown} |"


def _hit(measured: Measured, rules: Sequence[str], group: str) -> set[str]:
    """Return the sessions of a group in which one of the rules fired."""
    return set().union(*(measured.fired.get(rule, {}).get(group, set()) for rule in rules))


def _share(measured: Measured, rules: Sequence[str], group: str) -> str:
    total, hit = len(measured.sessions.get(group, ())), len(_hit(measured, rules, group))
    return f"{hit} of {total} ({hit / total:.1%})" if total else "-"


def main() -> int:
    """Print the tables."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        print(f"{VARIABLE} is not set; it names the folder of the recordings", file=sys.stderr)
        return 2
    print(tables(Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
