"""``python -m tests.reports.compliance_coverage``: how much of real system prompts becomes rules, and what those find.

Reads the tau_bench recordings in the folder that STREAM_GUARD_DATA names. Each prompt is read with the tools its
traces declare or call; then every trace is checked, without a judge.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stream_guard_compliance import Extraction, check_compliance, extract

from stream_guard.registry import build_registry
from stream_guard.settings import Settings


@dataclass
class Part:
    """All traces that share a system prompt."""

    prompt: str
    origins: Counter[str] = field(default_factory=Counter)
    traces: list[list[Any]] = field(default_factory=list)

    @property
    def tools(self) -> list[str]:
        """The tools that any of the traces calls."""
        calls = (call for trace in self.traces for message in trace for call in message.get("tool_calls") or ())
        return sorted({call["function"]["name"] for call in calls})


def read_parts(folder: Path) -> tuple[list[Part], int]:
    """Return the traces by prompt, and how many recordings have none."""
    parts: dict[str, Part] = {}
    empty = 0
    for file in sorted(folder.glob("*.jsonl.gz")):
        for trace in _recordings(file):
            if not trace or trace[0].get("role") != "system":
                empty += 1
                continue
            prompt = trace[0]["content"]
            part = parts.setdefault(prompt, Part(prompt))
            part.origins[file.name.split(".")[0]] += 1
            part.traces.append(trace[1:])
    return list(parts.values()), empty


def _recordings(file: Path) -> Iterator[list[Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line).get("traj") or []


def shares(extraction: Extraction) -> dict[str, int]:
    """Count the sentences by what became of them; what is no rule (facts, permissions, headings) is left out."""
    concrete = sum(bool(rule.compiled.rules) for rule in extraction.rules)
    return {
        "concrete": concrete,
        "inconclusive": len(extraction.rules) - concrete,
        "unparsed": len(extraction.unparsed),
    }


def check_part(part: Part) -> tuple[Counter[str], Counter[str], float]:
    """Check every trace; return how many have an alert of each rule, the verdicts, and the seconds it took."""
    registry, settings, tools = build_registry(), Settings(), part.tools
    alerts: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    began = time.perf_counter()
    for trace in part.traces:
        result = asyncio.run(check_compliance(part.prompt, trace, tools=tools, settings=settings, registry=registry))
        alerts.update({violation.rule_id for violation in result.violations})
        verdicts[result.verdict] += 1
    return alerts, verdicts, time.perf_counter() - began


def report(folder: Path) -> None:
    """Print the report."""
    parts, empty = read_parts(folder)
    print(f"{sum(len(part.traces) for part in parts)} traces with {len(parts)} prompts; {empty} recordings have none")
    for part in parts:
        extraction = extract(part.prompt, part.tools)
        counts = shares(extraction)
        total = sum(counts.values())
        print(f"\n{', '.join(part.origins)}: {len(part.traces)} traces, {len(part.prompt)} characters")
        print(f"  sentences that ask for something: {total}; others: {len(extraction.other)}")
        for name, count in counts.items():
            print(f"  {name}: {count} ({count / total:.0%})")
        alerts, verdicts, took = check_part(part)
        print(f"  verdicts: {dict(verdicts)} in {took:.1f} s")
        for rule in extraction.rules:
            if rule.compiled.rules:
                found = alerts[rule.rule.rule_id]
                kinds = ", ".join(sorted({form["kind"] for form in rule.compiled.rules}))
                print(f"  {found / len(part.traces):6.1%} of traces: {rule.rule.rule_id} ({kinds})")


def main() -> int:
    """Return 0, or 2 when there is nothing to read."""
    data = os.environ.get("STREAM_GUARD_DATA")
    folder = Path(data or "") / "tau_bench"
    if not data or not folder.is_dir():
        print("STREAM_GUARD_DATA names no folder with tau_bench in it; there is nothing to report", file=sys.stderr)
        return 2
    report(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
