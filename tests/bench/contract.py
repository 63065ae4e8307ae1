"""Cells of a contract per second, against flakestorm's own engine on the same agent, in process and over HTTP.

What is timed begins with the loaded contract and ends with the matrix; neither side's reading of the file is in it.

- Flakestorm, for each cell: reset, one call of the agent with the scenario's faults put on its final answer, the checks
  of all invariants on what came, of which one is kept as pass or fail.
- We, for each session: reset, one call of the agent with the faults between it and its model, four events recorded as
  JSON lines and read back, and the rules of the invariants that asked its prompt. For each cell: state, reason, the
  masked excerpt, the event. In the first round only: rules and engine are made of the contract, and kept.

The invariants of a scenario judge one session together, so there are fewer calls here; the column ``own_calls`` gives
every invariant a prompt of its own, and then the calls are as many. Over HTTP the agent's model stands behind our
proxy, one hop more than flakestorm has, because faults come in there; it is the time on the wall, once. In process it
is CPU time, and each side has processes of its own, in turn. ``ratio`` compares the best of many rounds, in which both
have their patterns compiled and we have our rules; ``first_ratio`` the first round of a process, which is all that a
run from the command line has.

The compiled build is measured in process, with shared calls.

``python -m tests.bench.contract`` measures in process only, in seconds instead of minutes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from stream_guard_contract.document import AgentSection, Contract, load_contract
from stream_guard_contract.driver import AgentDriver, AgentSetup, plan_sessions
from stream_guard_contract.recording import decode_events
from stream_guard_contract.scoring.matrix import CellState
from stream_guard_contract.scoring.score import score

from stream_guard.registry import Registry, build_registry
from tests.bench import contract_agent
from tests.bench.builds import SAFE_PATH, SITE, environment_of
from tests.bench.environments import python_with
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
VERSION = "2.0.0"  # the one whose behaviour was measured; Apache-2.0
SIZES = {100: 10, 1_600: 40}  # cells, and invariants as well as scenarios
ROUNDS = {100: 50, 1_600: 5}  # in one process, by cells: what takes milliseconds is disturbed by anything
PROCESSES = 3  # of each side
_IN_PROCESS = {"type": "python", "endpoint": "contract_agent:answer", "reset_function": "contract_agent:reset"}

# Runs in an environment of its own: its dependencies are not ours.
_THEIRS = """
import asyncio, json, sys, time
from flakestorm.contracts.engine import ContractEngine
from flakestorm.core.config import FlakeStormConfig
from flakestorm.core.protocol import create_agent_adapter
folder, path, rounds = sys.argv[1:]
sys.path.insert(0, folder)
import contract_agent
config = FlakeStormConfig.model_validate(json.load(open(path)))
clock = time.process_time if config.agent.type == "python" else time.perf_counter
seconds = []
for _ in range(int(rounds)):
    began = clock()
    matrix = asyncio.run(ContractEngine(config, config.contract, create_agent_adapter(config.agent)).run())
    seconds.append(clock() - began)
print(json.dumps([seconds, len(matrix.cell_results)]))
"""

_INVARIANTS: list[dict[str, Any]] = [
    {"type": "contains", "value": "according to"},
    {"type": "regex", "pattern": r"\$\d+\.\d{2}"},
    {"type": "contains_any", "values": ["feed", "source"]},
    {"type": "excludes_pattern", "patterns": ["password", "system prompt"]},
    {"type": "output_not_empty"},
    {"type": "latency", "max_ms": 60_000},
    {"type": "excludes_pii"},
    {"type": "completes"},
]
_FAULTS: list[list[dict[str, Any]]] = [
    [],
    [{"mode": "truncated_response", "max_tokens": 5}],
    [{"mode": "empty"}],
    [{"mode": "garbage"}],
    [{"mode": "response_drift", "drift_type": "verbosity_shift"}],
]


def measure(registry: Registry, cache: Path) -> dict[str, Any]:
    """Return cells per second of both engines, and how many times more ours are, or why that is not known."""
    python = _their_python(cache)
    if python is None:
        return {"missing": f"flakestorm {VERSION} cannot be installed here"}
    results = _in_process(python, cache)
    port, model_port, proxy_port = free_port(), free_port(), free_port()
    over_http = {"type": "http", "endpoint": f"http://127.0.0.1:{port}/ask"}
    over_http["reset_endpoint"] = f"http://127.0.0.1:{port}/reset"
    model_url = f"http://127.0.0.1:{model_port}/v1"
    with _agent(model_port, model_url):
        with _agent(port, model_url):
            theirs = {cells: min(_their_seconds(python, cache, over_http, cells, rounds=1)) for cells in SIZES}
        with _agent(port, f"http://127.0.0.1:{proxy_port}/v1"):
            setup = AgentSetup(agent=_form(over_http), model=model_url, port=proxy_port)
            for cells in SIZES:
                shared, own = (
                    min(_our_seconds(cells, registry, setup, own_prompts=own, rounds=1)) for own in (False, True)
                )
                results[f"http {cells}"] = _row(cells, theirs[cells], shared, own)
    return results


def _in_process(python: Path, cache: Path) -> dict[str, Any]:
    shutil.copy(contract_agent.__file__, cache / "contract_agent.py")
    results = {}
    for cells, rounds in ROUNDS.items():
        sides: dict[str, Callable[[], list[float]]] = {
            "theirs": partial(_their_seconds, python, cache, _IN_PROCESS, cells, rounds),
            "shared": partial(_in_new_process, cells, "shared"),
            "own": partial(_in_new_process, cells, "own"),
        }
        if SITE.exists():
            sides["compiled"] = partial(_in_new_process, cells, "shared", compiled=True)
        taken: dict[str, list[list[float]]] = {side: [] for side in sides}
        for _ in range(PROCESSES):  # in turn, so that noise meets all alike
            for side, run in sides.items():
                taken[side].append(run())
        least = {side: min(map(min, runs)) for side, runs in taken.items()}
        first = {side: min(seconds[0] for seconds in runs) for side, runs in taken.items()}
        results[f"python {cells}"] = {
            **_row(cells, least["theirs"], least["shared"], least["own"]),
            "flakestorm_first_ms": first["theirs"] * 1e3,
            "first_ms": first["shared"] * 1e3,
            "first_ratio": first["theirs"] / first["shared"],
        }
        if "compiled" in least:
            results[f"python {cells}"] |= {
                "compiled_cells_per_s": cells / least["compiled"],
                "compiled_ratio": least["theirs"] / least["compiled"],
                "compiled_first_ratio": first["theirs"] / first["compiled"],
            }
    return results


def _row(cells: int, theirs: float, shared: float, own: float) -> dict[str, float]:
    return {
        "flakestorm_cells_per_s": cells / theirs,
        "cells_per_s": cells / shared,
        "ratio": theirs / shared,
        "own_calls_cells_per_s": cells / own,
        "own_calls_ratio": theirs / own,
    }


def _in_new_process(cells: int, prompts: str, *, compiled: bool = False) -> list[float]:
    command = [sys.executable, *SAFE_PATH, "-m", __spec__.name, str(cells), prompts]
    environment = environment_of(compiled=compiled)
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    seconds: list[float] = json.loads(done.stdout)
    return seconds


def _our_seconds(cells: int, registry: Registry, setup: AgentSetup, *, own_prompts: bool, rounds: int) -> list[float]:
    """Return the seconds from the contract to the matrix, with prompts that invariants share, or with own ones."""
    contract = load_contract(json.dumps(_contract(cells, own_prompts=own_prompts)), registry)
    clock = time.perf_counter if setup.is_http else time.process_time
    seconds = []
    for _ in range(rounds):
        began = clock()
        _run(contract, registry, setup)
        seconds.append(clock() - began)
    return seconds


def _run(contract: Contract, registry: Registry, setup: AgentSetup) -> None:
    decoder = registry.decoders["native"]()
    events = []
    with AgentDriver(setup) as driver:
        for lines in driver.run_all(plan_sessions(contract, run_id="bench")):
            events += decode_events(lines, decoder, "bench")
    matrix = score(contract, events, registry)
    # A run in which nothing was met would be quick, and worth nothing.
    if matrix.count(CellState.NOT_EXERCISED) or matrix.count(CellState.INCONCLUSIVE) or matrix.score is None:
        raise RuntimeError(f"not every cell was evaluated: {[cell.reason for cell in matrix.cells][:3]}")


def _contract(cells: int, *, own_prompts: bool = False) -> dict[str, Any]:
    side = SIZES[cells]
    invariants = [
        {
            "id": f"i{number}",
            **_INVARIANTS[number % len(_INVARIANTS)],
            **({"probes": [f"What is ACME worth, asked for the {number}th time?"]} if own_prompts else {}),
        }
        for number in range(side)
    ]
    scenarios = [{"name": f"s{number}", "llm_faults": _FAULTS[number % len(_FAULTS)]} for number in range(side)]
    return {
        "version": "2.0",
        "golden_prompts": ["What is ACME worth?"],
        "contract": {"name": "bench", "invariants": invariants, "chaos_matrix": scenarios},
    }


def _their_seconds(python: Path, cache: Path, agent: dict[str, Any], cells: int, rounds: int) -> list[float]:
    file = cache / f"{agent['type']}-{cells}.json"
    # It wants an invariant of its own section too, and never asks about it here.
    data = {**_contract(cells), "agent": agent, "invariants": [{"type": "output_not_empty"}]}
    file.write_text(json.dumps(data), encoding="utf-8")
    command = [str(python), "-c", _THEIRS, str(cache), str(file), str(rounds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds: list[float]
    seconds, found = json.loads(done.stdout.splitlines()[-1])
    if found != cells:
        raise RuntimeError(f"flakestorm made {found} cells of {cells}")
    return seconds


def _form(agent: dict[str, Any]) -> AgentSection:
    return AgentSection.model_validate(agent)


@contextmanager
def _agent(port: int, model_url: str) -> Iterator[None]:
    command = [sys.executable, contract_agent.__file__, str(port), model_url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the agent did not start")
        yield
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _their_python(cache: Path) -> Path | None:
    return python_with("flakestorm", VERSION, "flakestorm.contracts.engine", cache)


def main(arguments: Sequence[str]) -> int:
    """Measure in process and print a table; or be such a process, and print the seconds of one contract."""
    if arguments:
        cells, prompts = int(arguments[0]), arguments[1]
        names = {key: f"{__package__}.{_IN_PROCESS[key]}" for key in ("endpoint", "reset_function")}
        setup = AgentSetup(agent=_form({**_IN_PROCESS, **names}))
        own = prompts == "own"
        print(json.dumps(_our_seconds(cells, build_registry(), setup, own_prompts=own, rounds=ROUNDS[cells])))
        return 0
    cache = ROOT / ".cache" / "bench-flakestorm"
    python = _their_python(cache)
    if python is None:
        return 1
    for name, row in _in_process(python, cache).items():
        print(f"{name:>12}: {', '.join(f'{key} {value:,.4g}' for key, value in row.items())}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
