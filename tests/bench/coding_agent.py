"""What a coding agent waits for: the hook's process, the reader of shell commands, the gate with the pack.

Processes are measured in CPU time, the median of many runs, and as a ratio to a Python that does nothing, so that a
busy machine changes little.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from stream_guard_shell.reading import read_command

import stream_guard
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry
from tests.unit.shell.test_cases import CASES
from tests.wires.gate import serving

RUNS: Final = 30
NO_GATE: Final = "http://127.0.0.1:9"
START: Final = "import sys; from stream_guard.cli.process import main; main()"
PAYLOAD: Final = {
    "session_id": "bench",
    "cwd": "/code/app",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "git status"},
    "tool_use_id": "t",
}


def measure(registry: Registry, runs: int = RUNS) -> dict[str, Any]:
    """Return CPU of the hook, time of a command's reading, and the wait for the gate with the pack."""
    policy = load_policy(json.dumps({"packs": ["coding_agent"]}), registry)
    return {"hook": hook(runs), "reading": reading(), "gate": gate(policy)}


def hook(runs: int) -> dict[str, float]:
    """Return the CPU in milliseconds from a hook's start to its end, beside an empty Python, and the ratios to it.

    ``first`` is a hook whose modules nobody compiled yet; ``hook install`` compiles them. One after the other in turn,
    so that all of them meet the same machine.
    """
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), '{"rules": []}') as (address, _):
        compiled = _copied(Path(folder) / "compiled")
        bare = {**_copied(Path(folder) / "bare"), "PYTHONDONTWRITEBYTECODE": "1"}
        asked = ["-c", START, "hook", "claude-code", "--timeout", "60", "--gate"]
        ways: dict[str, tuple[list[str], dict[str, str]]] = {
            "empty": (["-c", ""], compiled),
            "gate": ([*asked, address], compiled),
            "no_gate": ([*asked, NO_GATE], compiled),
            "gate_first": ([*asked, address], bare),
            "no_gate_first": ([*asked, NO_GATE], bare),
        }
        for way in ways.values():
            _cpu(*way)
        rounds = [{name: _cpu(*way) * 1e3 for name, way in ways.items()} for _ in range(runs)]
    found = {f"{name}_ms": statistics.median(one[name] for one in rounds) for name in ways}
    return found | {f"{name}_ratio": found[f"{name}_ms"] / found["empty_ms"] for name in list(ways)[1:]}


def _copied(folder: Path) -> dict[str, str]:
    """Return an environment with our modules in a folder of their own, where nothing is compiled yet."""
    source = Path(stream_guard.__file__).parent
    shutil.copytree(source, folder / "stream_guard", ignore=shutil.ignore_patterns("__pycache__", "*.so", "static"))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(folder)}


def _cpu(arguments: list[str], environment: dict[str, str]) -> float:
    before = _children()
    command = [sys.executable, *arguments]
    said = json.dumps(PAYLOAD).encode()
    # Not from here, where Python would find our modules before those of the environment.
    subprocess.run(command, input=said, env=environment, cwd=tempfile.gettempdir(), capture_output=True, check=True)
    return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reading() -> dict[str, float]:
    """Return the CPU that reading a command takes, over the commands of the tests."""
    for case in CASES:
        read_command(case.command, "/code/app", "/code")
    began = time.process_time()
    for case in CASES:
        read_command(case.command, "/code/app", "/code")
    return {"us_per_command": (time.process_time() - began) / len(CASES) * 1e6, "commands": len(CASES)}


def gate(policy: Policy) -> dict[str, float]:
    """Return the CPU of a decision with the whole pack, over the commands of the tests."""
    guard = Guard(policy)
    taken = []
    for number, case in enumerate(CASES):
        call = ToolCall(
            session_id=f"s{number % 20}",
            event_id=str(number),
            time=float(number),
            tool="Bash",
            args={"command": case.command},
            labels={"cwd": "/code/app"},
        )
        began = time.process_time()
        guard.check(call)
        taken.append(time.process_time() - began)
    taken.sort()
    return {"p50_ms": taken[len(taken) // 2] * 1e3, "p99_ms": taken[len(taken) * 99 // 100] * 1e3}
