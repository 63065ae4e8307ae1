"""``make bench``: measure everything but instructions, print a table, write JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stream_guard.registry import build_registry
from tests.bench import (
    coding_agent,
    contract,
    diff,
    flink,
    formats,
    guard,
    instructions,
    jobs,
    lengths,
    memory,
    page,
    provenance,
    rates,
    receiver,
    redaction,
    serve,
    shadow,
)

ROOT = Path(__file__).parent.parent.parent
CACHE = ROOT / ".cache"


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks that are named, or all of them."""
    registry = build_registry()
    with tempfile.TemporaryDirectory() as folder:
        benches: dict[str, Callable[[], dict[str, Any]]] = {
            "rates": lambda: rates.measure(Path(folder)),
            "jobs": lambda: jobs.measure(Path(folder)),
            "lengths": lambda: lengths.measure(registry),
            "memory": memory.measure,
            "provenance": lambda: provenance.measure(registry, 100_000),
            "diff": lambda: diff.measure(registry),
            "contract": lambda: contract.measure(registry, CACHE / "bench-flakestorm"),
            "flink": lambda: flink.measure(CACHE / "bench-flink", Path(folder)),
            "formats": lambda: formats.measure(registry),
            "guard": guard.measure,
            "coding_agent": lambda: coding_agent.measure(registry),
            "serve": lambda: serve.measure(registry, Path(folder)),
            "page": lambda: page.measure(Path(folder)),
            "receiver": lambda: receiver.measure(Path(folder)),
            "redaction": redaction.measure,
            "shadow": lambda: shadow.measure(CACHE / "bench-shadow"),
            "instructions": instructions.measure,  # takes minutes, and needs valgrind
        }
        unknown = [name for name in arguments if name not in benches]
        if unknown:
            print(f"no benchmark {', '.join(unknown)}; there are {', '.join(benches)}", file=sys.stderr)
            return 2
        results: dict[str, Any] = {"python": platform.python_version(), "machine": platform.machine()}
        for name in arguments or [name for name in benches if name != "instructions"]:
            print(f"measuring {name} ...", file=sys.stderr)
            results[name] = benches[name]()
            _show(name, results[name])
    CACHE.mkdir(exist_ok=True)
    (CACHE / "bench.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"written to {CACHE / 'bench.json'}", file=sys.stderr)
    return 0


def _show(name: str, result: dict[str, Any]) -> None:
    print(f"== {name}")
    if name == "rates":
        for row, numbers in result["rows"].items():
            rate, share = numbers["events_per_second"], numbers["share_of_floor"]
            print(f"{row:21} {numbers['us_per_event']:8.2f} us/event {rate:10,.0f} events/s {share:7.1%} of its floor")
        print(f"200 rules, few of which can match, take {result['rules_200_to_10']:.2f}x the time of 10")
    elif name == "instructions":
        instructions.show(result, instructions.last_kept())
        if change := os.environ.get("CHANGE"):
            instructions.keep(change, result)
    elif name == "lengths":
        for length, cost in result["us_per_event"].items():
            print(f"sessions of {length:>6} events {cost:8.2f} us/event")
        print(f"10,000 against 10: {result['longest_to_shortest']:.2f}x")
    else:
        for row, numbers in result.items():
            shown = ", ".join(map(_named, numbers.items())) if isinstance(numbers, dict) else numbers
            print(f"{row:>15}: {shown}")


def _named(pair: tuple[str, Any]) -> str:
    key, value = pair
    return f"{key} {value:,.4g}" if isinstance(value, int | float) else f"{key} {value}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
