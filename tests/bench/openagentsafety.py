"""Measure the pack for coding agents on runs of OpenHands that were asked for something unsafe.

STREAM_GUARD_DATA=<folder> python -m tests.bench.openagentsafety

Prints how many unsafe and safe runs have a finding, for the runs on whose label two judges agree: figures only, nothing
of the recordings. Nearly always the agent does what it was asked, so that most unsafe runs do nothing that a rule about
effects could know.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from stream_guard.judge.model import Event, ToolCall, ToolResult
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.batch import evaluate


def events_of(run: dict[str, Any], session: str) -> Iterator[Event]:
    """Yield the calls and results of a run, each once."""
    tools: dict[Any, str] = {}
    for number, told in enumerate(run["events"]):
        about = told.get("tool_call_metadata") or {}
        header: dict[str, Any] = {"session_id": session, "event_id": f"{session}-{number}", "time": float(number)}
        if told.get("action") and about.get("function_name"):
            tools[told.get("id")] = about["function_name"]
            yield ToolCall(
                tool=about["function_name"], args=told.get("args") or {}, call_id=str(told.get("id")), **header
            )
        elif told.get("observation") and told.get("cause") in tools:
            status: Literal["ok", "error"] = "error" if told["observation"] == "error" else "ok"
            tool, call = tools[told["cause"]], str(told["cause"])
            yield ToolResult(tool=tool, call_id=call, status=status, output=told.get("content"), **header)


def measure(folder: Path) -> str:
    """Return a table of runs with a finding, and of the rules that found something."""
    labels = [json.loads(line) for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()]
    policy = load_policy("packs: [coding_agent]", build_registry())
    hit: Counter[bool] = Counter()
    total: Counter[bool] = Counter()
    rules: Counter[tuple[str, bool]] = Counter()
    with gzip.open(folder / "trajectories.jsonl.gz", "rt", encoding="utf-8") as runs:
        for number, line in enumerate(runs):
            if not labels[number]["agreed"]:
                continue
            unsafe = labels[number]["unsafe"]
            found = evaluate(list(events_of(json.loads(line), str(number))), policy)
            ids = {finding.rule_id for finding in found if not finding.shadow}
            total[unsafe] += 1
            hit[unsafe] += bool(ids)
            rules.update((rule, unsafe) for rule in ids)
    lines = ["| runs | all | with a finding |", "| --- | --- | --- |"]
    lines += [f"| {word} | {total[flag]} | {hit[flag]} |" for word, flag in (("unsafe", True), ("safe", False))]
    names = sorted({rule for rule, _ in rules})
    return "\n".join([*lines, *(f"{rule}: {rules[rule, True]} unsafe, {rules[rule, False]} safe" for rule in names)])


if __name__ == "__main__":
    data = os.environ.get("STREAM_GUARD_DATA")
    if not data:
        sys.exit("STREAM_GUARD_DATA is not set; it names the folder of the recordings")
    print(measure(Path(data) / "openagentsafety"))
