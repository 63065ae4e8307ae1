"""Count what the decoders make of real recordings, and hold it against what the recordings' own pages say.

STREAM_GUARD_DATA=<folder> python -m tests.reports.formats_counts
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from stream_guard.errors import DecodeError
from stream_guard.judge.model import Event, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.settings import PluginSettings
from stream_guard.sources import open_source

VARIABLE = "STREAM_GUARD_DATA"


class Set(NamedTuple):
    """Files of one format, and what their page says is in them."""

    name: str
    form: str
    pattern: str
    wanted: Mapping[str, int]


# The numbers are those on the page beside the recordings. The headers of tau2 hold no conversation and are refused.
SETS = (
    Set("agentdyn", "agentdojo", "agentdyn/runs.jsonl.gz", {"records": 1540, "sessions": 1540, "calls": 9695}),
    Set(
        "claude_code",
        "claude-code",
        "claude_code/replay.jsonl.gz",
        {"records": 23495, "sessions": 62, "calls": 4611, "errors": 185, "blocked": 51},
    ),
    Set("langfuse_export", "langfuse", "langfuse_export/traces.jsonl.gz", {"records": 10, "sessions": 10}),
    Set("trail_otel", "openinference", "trail_otel/traces.jsonl.gz", {"sessions": 13, "turns": 187, "calls": 11}),
    Set(
        "sentinel_steps",
        "steps",
        "sentinel_steps/episodes.jsonl.gz",
        {"sessions": 936, "turns": 6778, "calls": 5861, "results": 5861},
    ),
    Set("tau2", "tau2", "tau2/*.simulations.jsonl.gz", {"sessions": 28, "calls": 132}),
    Set("tau2 headers", "tau2", "tau2/*.header.jsonl.gz", {"records": 2, "refused": 2}),
    Set("tau_bench", "tau-bench", "tau_bench/*.jsonl.gz", {"records": 553, "calls": 3287}),
    Set("tau_bench act", "text-protocol", "tau_bench/retail_act-*.jsonl.gz", {"records": 58}),
)


def main() -> int:
    """Print the table; the exit code is 1 when a number differs."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        print(f"{VARIABLE} is not set; it names the folder of the recordings", file=sys.stderr)
        return 2
    print("set             count        wanted     found")
    wrong = 0
    for one in SETS:
        found, reasons = count(Path(folder), one)
        for name in dict.fromkeys([*one.wanted, *sorted(found)]):
            wanted = one.wanted.get(name)
            differs = wanted is not None and wanted != found[name]
            wrong += differs
            print(
                f"{one.name:15} {name:10} {'' if wanted is None else wanted:>8} {found[name]:>9}{'  DIFFERS' * differs}"
            )
        for reason, times in reasons.most_common(3):
            print(f"{'':15} {times} x {reason}")
    print(f"{wrong} differ" if wrong else "every number is the one on its page")
    swept, reasons = sweep(Path(folder))
    print(f"everything, as auto: {swept['records']} records in {swept['files']} files, {swept['refused']} refused")
    for reason, times in reasons.most_common():
        print(f"{'':15} {times} x {reason}")
    return min(wrong, 1)


def sweep(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Hand every record there is to ``auto``: read, or refused for a reason; whatever else is raised ends the count."""
    decoders = build_registry(PluginSettings(allow=("formats",))).decoders
    found: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for path in sorted(folder.rglob("*")):
        if path.name.endswith((".jsonl", ".jsonl.gz", ".json")):
            found["files"] += 1
            decoder = decoders["auto"]()
            for record in documents(path):
                found["records"] += 1
                try:
                    found["events"] += len(decoder.decode(record))
                except DecodeError as error:
                    found["refused"] += 1
                    reasons[str(error)] += 1
    return found, reasons


def documents(path: Path) -> Iterator[Record]:
    """Yield the records of a file: its lines, or all of it where it is one document."""
    if path.name.endswith(".json"):
        yield Record(path.read_bytes(), str(path))
        return
    source = open_source(str(path))
    yield from (record for record in source if record is not None)
    source.close()


def count(folder: Path, one: Set) -> tuple[Counter[str], Counter[str]]:
    """Return what the set's records hold, and the reasons for those that were refused."""
    decoder = build_registry(PluginSettings(allow=("formats",))).decoders[one.form]()
    found: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    sessions: set[str] = set()
    for record in records(folder, one.pattern):
        found["records"] += 1
        try:
            events = decoder.decode(record)
        except DecodeError as error:
            found["refused"] += 1
            reasons[str(error)] += 1
            continue
        found["empty"] += not events
        for event in events:
            sessions.add(event.session_id)
            found.update(tally(event))
    found["sessions"] = len(sessions)
    return found, reasons


def tally(event: Event) -> Counter[str]:
    """Return what one event counts for; calls inside sub-agents are counted apart."""
    inside = "inner " if event.run_id else ""
    tally: Counter[str] = Counter()
    if isinstance(event, Turn):
        tally[f"{inside}turns"] += 1
        tally[f"{inside}calls"] += sum(block["type"] == "tool_use" for block in event.response["content"])
    elif isinstance(event, ToolCall):
        tally[f"{inside}calls"] += 1
    elif isinstance(event, ToolResult):
        tally[f"{inside}results"] += 1
        # A call that a person refused is one of the errors on the page.
        tally[f"{inside}errors"] += event.status != "ok"
        tally[f"{inside}blocked"] += event.status == "blocked"
    elif isinstance(event, UserMessage):
        tally["users"] += 1
    return tally


def records(folder: Path, pattern: str) -> Iterator[Record]:
    """Yield the records of the files that the pattern names."""
    for path in sorted(folder.glob(pattern)):
        if "labels" in path.name or "reference" in path.name:
            continue
        source = open_source(str(path))
        yield from (record for record in source if record is not None)
        source.close()


if __name__ == "__main__":
    sys.exit(main())
