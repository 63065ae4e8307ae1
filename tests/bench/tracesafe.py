"""Measure the kinds that compare calls with the tools that were offered, on pairs of traces with one planted fault.

STREAM_GUARD_DATA=<folder> python -m tests.bench.tracesafe

Prints how many faulty traces and how many of their unharmed twins have a finding: figures only.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stream_guard.judge.model import Event, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate

VARIABLE = "STREAM_GUARD_DATA"
# What each file plants, and the rule that is to see it; others find slips of the base models, in both twins.
RULES: Sequence[tuple[str, str, dict[str, Any]]] = (
    ("7_HallucinatedTool", "must_be_offered", {"checks": ["tool"]}),
    ("8_HallucinatedArgValue", "must_be_given", {}),
    ("8_HallucinatedArgValue", "must_be_given", {"texts": True}),
    ("9_RedundantArg", "must_be_offered", {"checks": ["arguments"]}),
    ("11_VersionConflict", "must_be_offered", {"checks": ["version"]}),
    # In one trace the call does without the argument that was retired: nothing in it is wrong.
    ("11_VersionConflict", "must_be_offered", {"checks": ["version", "changing"]}),
)


class PairScore(NamedTuple):
    """How many faulty traces, and how many of their unharmed twins, have a finding."""

    file: str
    rule: str
    faulty: int
    twins: int
    pairs: int


def events_of(trace: Mapping[str, Any], session: str) -> Iterator[Event]:
    """Yield the events of a trace: the question as it was put in the end, then calls and results."""
    yield UserMessage(session_id=session, text=trace["user_query"])
    tools = [
        {key: one[key] for key in ("name", "description", "parameters") if key in one} for one in trace["tool_lists"]
    ]
    calls: list[str] = []
    for number, step in enumerate(trace["trace"]):
        said = step["content"]
        if step["role"] == "user" and number:  # the first one is the question before it was changed
            yield UserMessage(session_id=session, text=str(said))
        if step["role"] == "agent" and isinstance(said, dict) and "name" in said:
            calls.append(said["name"])
            call_id = f"c{len(calls)}"
            yield Turn(
                session_id=session, request={"tools": tools}, response={"content": [], "stop_reason": "tool_use"}
            )
            yield ToolCall(session_id=session, tool=said["name"], args=said.get("arguments"), call_id=call_id)
        elif step["role"] == "tool" and calls:
            yield ToolResult(session_id=session, tool=calls[-1], call_id=f"c{len(calls)}", output=said)


def fires(policy: Policy, trace: Mapping[str, Any]) -> bool:
    """Whether a trace has a finding."""
    return any(True for _ in evaluate(events_of(trace, "s"), policy))


def lines_of(path: Path) -> list[bytes]:
    """Return the lines of a packed file."""
    with gzip.open(path) as opened:
        return opened.read().splitlines()


def scores(folder: Path) -> Iterator[PairScore]:
    """Yield the score of each rule on the file that it is for."""
    for name, kind, params in RULES:
        policy = load_policy(json.dumps({"rules": [{"id": "r", "kind": kind, "params": params}]}), build_registry())
        pairs = [json.loads(line) for line in lines_of(folder / "tracesafe" / f"{name}.jsonl.gz")]
        bad = sum(fires(policy, pair["new_trace"]) for pair in pairs)
        good = sum(fires(policy, pair["original_trace"]) for pair in pairs)
        said = ", ".join(f"{key}: {value}" for key, value in params.items())
        yield PairScore(name, f"{kind} {said}".rstrip(), bad, good, len(pairs))


def table(folder: Path) -> str:
    """Return the table of all files."""
    lines = ["| file | rule | faulty, with a finding | unharmed twins, with a finding |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {one.file} | {one.rule} | {one.faulty} of {one.pairs} | {one.twins} of {one.pairs} |"
        for one in scores(folder)
    ]
    return "\n".join(lines)


def main() -> int:
    """Print the table."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        print(f"{VARIABLE} is not set; it names the folder of the recordings", file=sys.stderr)
        return 2
    print(table(Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
