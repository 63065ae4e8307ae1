"""One rule of one kind in C, beside the same rule as it runs: how far below the present design the floor lies.

Both find ``A then B within five minutes`` per session in the same lines, in this process, and must find equally many.
The present way makes an event of every line, follows its session and runs the rule. The other makes no object of
Python for an event: it proves the JSON, finds the envelope's fields in the bytes, knows the session and the events it
has seen, and moves one state (native_sequence.c). It leaves out what a whole engine would have to do besides: calls
inside turns, places, dead letters, stored rows, every other kind. So it is a floor, and no promise.

``python -m tests.bench.native_kind`` measures it by itself. It needs a C compiler.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import msgspec

from stream_guard.model import Event, Finding
from stream_guard.pipeline import open_table
from stream_guard.policy.load import load_policy
from stream_guard.policy.spec import Policy
from stream_guard.ports import Record
from stream_guard.registry import Registry, build_registry
from tests.bench.builds import ROOT, answer, builds
from tests.bench.measure import best_of
from tests.bench.workload import event_lines

FIRST, THEN, WITHIN = "lookup_order", "ledger_query", 300.0
SESSIONS = 2_000
ROUNDS = 9
_SOURCE = Path(__file__).parent / "native_sequence.c"


def measure() -> dict[str, Any]:
    """Return the least microseconds of an event for each way, or what is missing."""
    if shutil.which("cc") is None:
        return {"missing": "cc cannot be found; install a C compiler"}
    with builds("tests.bench.native_kind", "ask") as sides:
        return {prefix.strip() or "plain": side.ask("all") for prefix, side in sides.items()}


def build(folder: Path) -> ModuleType:
    """Compile the spike into a folder and import it."""
    found = importlib.util.spec_from_file_location("compiled_build", ROOT / "deploy" / "compiled_build.py")
    assert found is not None
    assert found.loader is not None
    builder = importlib.util.module_from_spec(found)
    found.loader.exec_module(builder)
    builder.compile_c([str(_SOURCE)], folder / "lib", folder / "o")
    (library,) = (folder / "lib").rglob("*.so")
    loader = importlib.machinery.ExtensionFileLoader("native_sequence", str(library))
    spec = importlib.util.spec_from_loader("native_sequence", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def sequence_policy(registry: Registry) -> Policy:
    """Return the policy of the one rule."""
    params = {"steps": [{"tool": FIRST}, {"tool": THEN}], "within_seconds": WITHIN}
    return load_policy(json.dumps({"rules": [{"id": "sequence", "kind": "no_sequence", "params": params}]}), registry)


def found_natively(module: ModuleType, lines: list[bytes]) -> int:
    """Return how many lines are hits by the spike; none may be refused."""
    rule, judge, hits = module.open_rule(FIRST, THEN, WITHIN), module.judge, 0
    for line in lines:
        verdict = judge(rule, line)
        if verdict < 0:
            raise AssertionError(f"refused: {line[:200]!r}")
        hits += verdict
    return hits


def found_by_the_engine(registry: Registry, policy: Policy, lines: list[bytes]) -> int:
    """Return how many findings the engine makes of the same lines."""
    decode, table = registry.decoders["native"]().decode, open_table(policy, mode="stream")
    found: list[Finding] = []
    for number, line in enumerate(lines):
        for event in decode(Record(line, "lines", number)):
            table.feed(event, found)
    return len(found)


def _measure_here() -> dict[str, Any]:
    registry = build_registry()
    lines, policy = event_lines(SESSIONS), sequence_policy(registry)
    parse = msgspec.json.Decoder(Event).decode
    with TemporaryDirectory() as folder:
        module = build(Path(folder))
        native, ours = found_natively(module, lines), found_by_the_engine(registry, policy, lines)
        if native != ours:
            raise AssertionError(f"the spike finds {native}, the engine {ours}")
        least = best_of(
            {
                "msgspec alone": lambda: [None for line in lines if not parse(line)],
                "engine, one rule": lambda: found_by_the_engine(registry, policy, lines),
                "native, one rule": lambda: found_natively(module, lines),
            },
            ROUNDS,
        )
    return {"events": len(lines), "found": ours, **{way: round(s / len(lines) * 1e6, 2) for way, s in least.items()}}


if __name__ == "__main__":
    if sys.argv[1:] == ["ask"]:
        answer({"all": _measure_here})
    else:
        print(json.dumps(measure(), indent=1))
