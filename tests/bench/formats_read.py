"""Read every set of recordings as a user would, and hold the calls against a count that knows nothing of the decoders.

STREAM_GUARD_DATA=<folder> python -m tests.bench.formats_read

Prints a table for docs/formats.md: figures only. The exit code is 1 where a count differs.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from stream_guard.decoding.reader import EventReader
from stream_guard.judge.model import Event, ToolCall, ToolResult, Turn
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.settings import PluginSettings, Settings
from stream_guard.sources import open_source

VARIABLE = "STREAM_GUARD_DATA"
# What stands beside recordings: labels, lists, what other programs found, and the heads of result files.
BESIDE = re.compile(r"labels|reference|index|header|README|SYNTHETIC")


def values(file: Path) -> Iterator[Any]:
    """Yield the values of a file of JSON, or of JSON lines."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        text = lines.read()
    if ".json" in file.suffixes or file.suffix == ".json":
        yield json.loads(text)
    else:
        yield from (json.loads(line) for line in text.splitlines() if line.strip())


def find(value: Any, wanted: Callable[[dict[str, Any]], bool]) -> Iterator[dict[str, Any]]:
    """Yield every object in a value, also in texts that are JSON, that is wanted."""
    if isinstance(value, str) and value[:1] in "{[" and len(value) > 1:
        try:
            value = json.loads(value)
        except ValueError:
            return
    if isinstance(value, dict):
        if wanted(value):
            yield value
        for inner in value.values():
            yield from find(inner, wanted)
    elif isinstance(value, list):
        for inner in value:
            yield from find(inner, wanted)


def messages_with_calls(file: Path) -> int:
    """Count the calls in lists called tool_calls."""
    return sum(
        len(one["tool_calls"]) for value in values(file) for one in find(value, lambda it: bool(it.get("tool_calls")))
    )


def claude_calls(file: Path) -> int:
    """Count the ids of tool_use blocks."""
    return len({one["id"] for value in values(file) for one in find(value, lambda it: it.get("type") == "tool_use")})


def openhands_calls(file: Path) -> int:
    """Count the actions that a model asked for."""
    return sum("action" in one and "tool_call_metadata" in one for run in values(file) for one in run["events"])


def mini_calls(file: Path) -> int:
    """Count the answers with exactly one block of commands."""
    said = (one["content"] for run in values(file) for one in run["messages"] if one["role"] == "assistant")
    return sum(text.count("```bash") == 1 for text in said)


def hint_calls(file: Path) -> int:
    """Count the steps with an action."""
    return sum("action" in step for run in values(file) for step in run["trajectory"])


def trace_calls(file: Path) -> int:
    """Count the steps of agents, in both traces of a pair."""
    pairs = ((pair["original_trace"], pair["new_trace"]) for pair in values(file))
    return sum(step["role"] == "agent" for pair in pairs for trace in pair for step in trace["trace"])


def step_calls(file: Path) -> int:
    """Count the tool events of steps."""
    return sum(len(step["tool_events"]) for episode in values(file) for step in episode["steps"])


def written_calls(file: Path) -> int:
    """Count the actions that answers are written with, but for what is said to the user."""
    said = (one["content"] or "" for run in values(file) for one in run["traj"] if one["role"] == "assistant")
    return sum("Action:" in text and not re.search(r'"name":\s*"respond"', text) for text in said)


def langfuse_calls(file: Path) -> int:
    """Count the tools' observations of each trace, or the calls that models asked for where there are more."""
    total = 0
    for trace in values(file):
        seen = list(find(trace, lambda it: it.get("type") == "TOOL"))
        ran = {one["id"] for one in seen}
        asked = {
            one["id"] for one in find(trace, lambda it: it.get("type") in ("tool_use", "tool_call") and "id" in it)
        }
        asked |= {
            call["id"]
            for one in find(trace, lambda it: bool(it.get("tool_calls")))
            for call in one["tool_calls"]
            if isinstance(call, dict) and call.get("id")
        }
        asked |= {one["call_id"] for one in find(trace, lambda it: it.get("type") == "function_call")}
        total += max(len(ran), len(asked))
    return total


def span_calls(file: Path) -> int:
    """Count the spans of tools."""
    return sum(1 for trace in values(file) for _ in find(trace, lambda it: it.get("openinference.span.kind") == "TOOL"))


class Recordings(NamedTuple):
    """Files of one set, and how their calls are counted."""

    name: str
    pattern: str
    count: Callable[[Path], int]
    form: str = "auto"


SETS = (
    Recordings("agentdyn", "agentdyn/runs.jsonl.gz", messages_with_calls),
    Recordings("claude_code, sessions", "claude_code/sessions/*.jsonl.gz", claude_calls),
    Recordings("claude_code, merged", "claude_code/replay.jsonl.gz", claude_calls),
    Recordings("hintbench", "hintbench/trajectories.jsonl.gz", hint_calls),
    Recordings("langfuse_export", "langfuse_export/traces.jsonl.gz", langfuse_calls),
    Recordings("mini_swe_agent", "mini_swe_agent/trajectories.jsonl.gz", mini_calls),
    Recordings("openagentsafety", "openagentsafety/trajectories.jsonl.gz", openhands_calls),
    Recordings("sentinel_steps", "sentinel_steps/episodes.jsonl.gz", step_calls),
    Recordings("tau2", "tau2/*.simulations.jsonl.gz", messages_with_calls),
    Recordings(
        "tau_bench, tool calls",
        "tau_bench/airline*.jsonl.gz tau_bench/retail_agentrx.jsonl.gz tau_bench/retail_tool*.jsonl.gz",
        messages_with_calls,
    ),
    Recordings("tau_bench, written actions", "tau_bench/retail_act*.jsonl.gz", written_calls, "text-protocol"),
    Recordings("tracesafe", "tracesafe/*.jsonl.gz", trace_calls),
    Recordings("trail_otel", "trail_otel/traces.jsonl.gz", span_calls),
)


class Letters:
    """Counts dead letters."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, record: Record, reason: str) -> None:
        """Count one."""
        del record, reason
        self.total += 1


def read(folder: Path, one: Recordings) -> Counter[str]:
    """Return what is read of a set, and what is counted in it."""
    registry = build_registry(PluginSettings(allow=("formats",)))
    decoder = registry.decoders[one.form].configure_among(Settings(), registry.decoders)
    letters, found, seen = Letters(), Counter[str](), set[tuple[str, str]]()
    reader = EventReader(decoder, letters)
    for file in sorted(file for pattern in one.pattern.split() for file in folder.glob(pattern)):
        if BESIDE.search(file.name):
            continue
        found["files"] += 1
        found["counted"] += one.count(file)
        with closing(open_source(str(file))) as source:
            for record in source:
                if record is not None:
                    found["records"] += 1
                    add(reader.read(record), found, seen)
    add(reader.finish(), found, seen)
    found["dead letters"] = letters.total
    return found


def add(events: Any, found: Counter[str], seen: set[tuple[str, str]]) -> None:
    """Count events, each once, as a session does."""
    for event in events:
        key = (event.session_id, event.event_id)
        if key not in seen:
            seen.add(key)
            found["events"] += 1
            found["calls"] += calls_of(event)
            found["results"] += isinstance(event, ToolResult)


def calls_of(event: Event) -> int:
    """Return how many calls an event tells of."""
    if isinstance(event, Turn):
        return sum(block["type"] == "tool_use" for block in event.response["content"])
    return int(isinstance(event, ToolCall))


def main() -> int:
    """Print the table; 1 where the calls of a set are not those that were counted."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        print(f"{VARIABLE} is not set; it names the folder of the recordings", file=sys.stderr)
        return 2
    columns = ("files", "records", "events", "calls", "counted", "results", "dead letters")
    print(f"| set | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    wrong = 0
    for one in SETS:
        found = read(Path(folder), one)
        wrong += found["calls"] != found["counted"]
        print(f"| {one.name} | {' | '.join(f'{found[name]:,}' for name in columns)} |", flush=True)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
