"""What ``run`` finds while it drives, ``score`` finds again in what was recorded: the same matrix, cell by cell."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from stream_guard_contract.commands import make_setups, plan_run, record_sessions, score_traces
from stream_guard_contract.document import load_contract
from stream_guard_contract.scoring.matrix import CellState, Matrix
from stream_guard_contract.scoring.score import score

from stream_guard.registry import Registry, build_registry
from stream_guard.settings import load_settings
from tests.contract_pack.random_contracts import make_contract

CONTRACTS = 100


@pytest.fixture(scope="module")
def registry() -> Registry:
    return build_registry()


def run_and_score(promise: dict[str, Any], seed: int, registry: Registry, folder: Path) -> tuple[Matrix, Matrix]:
    """Return the matrix of a run, and the one that scoring its recording gives."""
    contract = load_contract(json.dumps(promise), registry, file=f"{seed}.json")
    file = folder / f"{seed}.jsonl"
    setups = make_setups(contract, (), (), None, 0)
    events = record_sessions(setups, plan_run(contract, seed, 1), file, registry.decoders["native"]())
    scored, unread = score_traces(contract, [str(file)], "auto", registry, load_settings())
    assert unread == 0
    return score(contract, events, registry), scored


@pytest.mark.long
def test_score_gives_the_matrix_of_the_run_again_for_a_hundred_contracts(registry: Registry, tmp_path: Path) -> None:
    states: Counter[CellState] = Counter()
    for seed in range(CONTRACTS):
        ran, scored = run_and_score(make_contract(seed), seed, registry, tmp_path)
        assert msgspec.to_builtins(scored) == msgspec.to_builtins(ran), f"contract {seed}"
        states.update(cell.state for cell in ran.cells)
    # A comparison of matrices that never differ from each other would prove nothing.
    assert all(states[state] >= 5 for state in CellState if state is not CellState.TIMEOUT), states


RELEASED = threading.Event()


def hang(_prompt: str) -> str:
    RELEASED.wait(30)
    return "too late"


def test_score_finds_again_that_the_agent_did_not_answer_in_time(registry: Registry, tmp_path: Path) -> None:
    agent = {"endpoint": f"{__name__}:hang", "type": "python", "timeout": 1000}
    promise = {
        "agent": agent,
        "golden_prompts": ["Are you there?"],
        "contract": {"name": "answers", "invariants": [{"id": "any", "type": "output_not_empty"}]},
        "chaos_matrix": [{"name": "calm"}],
    }
    ran, scored = run_and_score(promise, 0, registry, tmp_path)
    RELEASED.set()
    assert [cell.state for cell in ran.cells] == [CellState.TIMEOUT]
    assert msgspec.to_builtins(scored) == msgspec.to_builtins(ran)
