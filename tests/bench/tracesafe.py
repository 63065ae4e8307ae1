"""Measure the kinds that compare calls with the tools that were offered, on pairs of traces with one planted fault.

STREAM_GUARD_DATA=<folder> python -m tests.bench.tracesafe

Prints how many faulty traces and how many of their unharmed twins have a finding: figures only.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stream_guard.model import Event, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.policy.load import load_policy
from stream_guard.policy.spec import Policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate

VARIABLE = "STREAM_GUARD_DATA"
# What each file plants, and the check that is to see it; the others find slips of the base models, in both twins.
FILES = {"7_HallucinatedTool": "tool", "9_RedundantArg": "arguments", "11_VersionConflict": "version"}


def events_of(trace: Mapping[str, Any], session: str) -> Iterator[Event]:
    """Yield the events of a trace: the question as it was put in the end, then calls and results."""
    yield UserMessage(session_id=session, text=trace["user_query"])
    tools = [
        {key: one[key] for key in ("name", "description", "parameters") if key in one} for one in trace["tool_lists"]
    ]
    calls: list[str] = []
    for step in trace["trace"]:
        said = step["content"]
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


def table(folder: Path) -> str:
    """Return the table of all files."""
    lines = ["| file | check | faulty, with a finding | unharmed twins, with a finding |", "| --- | --- | --- | --- |"]
    for name, check in FILES.items():
        rule = {"id": "as-offered", "kind": "must_be_offered", "params": {"checks": [check]}}
        policy = load_policy(json.dumps({"rules": [rule]}), build_registry())
        with gzip.open(folder / "tracesafe" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as opened:
            pairs = [json.loads(line) for line in opened]
        bad = sum(fires(policy, pair["new_trace"]) for pair in pairs)
        good = sum(fires(policy, pair["original_trace"]) for pair in pairs)
        lines.append(f"| {name} | {check} | {bad} of {len(pairs)} | {good} of {len(pairs)} |")
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
