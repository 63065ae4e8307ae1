"""Events per second: JSON lines in, alerts out, as a share of what decoding alone costs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import Any

import msgspec

from stream_guard.cli.process import YOUNG_OBJECTS, pass_over_loaded
from stream_guard.judge.model import Event
from stream_guard.registry import Registry, build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.running.embedded import RunOptions, open_run
from stream_guard.settings import DecodeSettings, Settings
from stream_guard.sources import open_source
from tests.bench.builds import answer, builds
from tests.bench.measure import Work, cpu_seconds
from tests.bench.workload import event_lines, policy

ROUNDS = 9


def measure(folder: Path, sessions: int = 2000) -> dict[str, Any]:
    """Return rates and shares for 0, 10, 50 and 200 rules, of the plain build and, where there is one, the compiled.

    There are two floors, both of the plain build. "decode only" reads and decodes as a run does by default, which
    refuses keys given twice. "msgspec alone" is the quickest any reader could be; the rows "lax" have that check
    turned off and are held against it.
    """
    file = folder / "events.jsonl"
    lines = event_lines(sessions)
    file.write_bytes(b"\n".join(lines) + b"\n")
    least = _least(file)
    rows = {}
    for name, seconds in least.items():
        floor = least["decode only" if name.removeprefix("compiled ").startswith("rules") else "msgspec alone"]
        rows[name] = {
            "us_per_event": seconds / len(lines) * 1e6,
            "events_per_second": len(lines) / seconds,
            "share_of_floor": floor / seconds,
        }
    size = sum(map(len, lines)) / len(lines)
    return {
        "events": len(lines),
        "bytes_per_event": size,
        "rows": rows,
        "rules_200_to_10": least["rules 200"] / least["rules 10"],
    }


def _least(file: Path) -> dict[str, float]:
    """Return the least CPU seconds of each row; rows and builds take turns, so that noise meets all alike."""
    least: dict[str, float] = {}
    with builds("tests.bench.rates", str(file)) as sides:
        for _ in range(ROUNDS):
            for name in sides[""].ask("names"):
                for prefix, build in sides.items():
                    least[prefix + name] = min(least.get(prefix + name, float("inf")), build.ask(name))
    return dict(sorted(least.items(), key=lambda row: row[0].startswith("compiled")))


def _works(registry: Registry, file: Path) -> dict[str, Callable[[], float]]:
    """Return what is measured, by the name of its row: each returns the CPU seconds that it took."""
    works: dict[str, Work] = {
        "msgspec alone": lambda: decode_only(file),
        "decode only": lambda: _read(registry, file),
    }
    for rules in (0, 10, 50, 200):
        works[f"rules {rules}"] = _run(registry, file, rules, strict=True)
    for rules in (10, 50):
        works[f"lax rules {rules}"] = _run(registry, file, rules, strict=False)
    return {name: partial(cpu_seconds, work) for name, work in works.items()}


def decode_only(file: Path) -> None:
    """Read the lines and decode them with msgspec: nothing that reads events can be quicker."""
    decode = msgspec.json.Decoder(Event).decode
    with file.open("rb") as lines:
        for line in lines:
            decode(line)


def run_options(registry: Registry, file: Path, rules: int, alerts: Path) -> RunOptions:
    """Return the options of a run of the embedded runner: lines in, alerts out."""
    return RunOptions(source=str(file), policy=policy(rules, registry), alerts=(f"jsonl:{alerts}",), serve=False)


def _run(registry: Registry, file: Path, rules: int, *, strict: bool) -> Work:
    """Return such a run, from its opening to its end."""
    settings = Settings(decode=DecodeSettings(strict_keys=strict))
    alerts = file.with_name("alerts.jsonl")
    options = run_options(registry, file, rules, alerts)

    def work() -> None:
        alerts.unlink(missing_ok=True)
        with Assembly(settings, registry) as assembly:
            open_run(options, assembly, Flag()).runner.run()

    return work


def _read(registry: Registry, file: Path) -> None:
    """Read and decode as a run does it, and nothing else."""
    decode = registry.decoders["native"](strict_keys=DecodeSettings().strict_keys).decode
    source = open_source(str(file))
    for record in source:
        if record is not None:
            decode(record)
    source.close()


if __name__ == "__main__":
    gc.set_threshold(YOUNG_OBJECTS)  # as the command does
    works = _works(build_registry(), Path(sys.argv[1]))
    pass_over_loaded()  # as well
    answer(works)
