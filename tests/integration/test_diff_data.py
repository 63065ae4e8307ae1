"""The gate of diff on recordings of real agents, where they are at hand: a small part of the benchmark."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from tests.bench.diff_gate import POLICY, VARIABLE, Tasks, ask, join, measure_pairing, read_agents, split
from tests.bench.diff_plants import PLANTS, plant_into

AGENTS = ("tau airline gpt-4o", "tau gemini-2.0-flash", "dyn gpt-4o-2024-08-06", "dyn gpt-4o-mini-2024-07-18")


@pytest.fixture(scope="module")
def agents() -> dict[str, Tasks]:
    folder = Path(os.environ.get(VARIABLE) or "missing")
    if not (folder / "tau_bench").is_dir():
        pytest.skip(f"{VARIABLE} names no folder with tau_bench and agentdyn in it")
    return {name: tasks for name, tasks in read_agents(folder).items() if name in AGENTS}


def test_sessions_are_paired_right_in_every_condition(agents: dict[str, Tasks]) -> None:
    for row in measure_pairing(agents).values():
        assert row["right"] >= 0.95 * row["of"] > 0


def test_an_agent_passes_beside_itself(agents: dict[str, Tasks]) -> None:
    policy = load_policy(POLICY, build_registry(), file="policy.yaml")
    blocked = sum(ask(*split(tasks, 50, random.Random(name)), policy)[0].trips for name, tasks in agents.items())
    assert blocked <= 1


@pytest.mark.parametrize("fault", ["refusal", "policy broken", "argument renamed"])
def test_a_fault_in_a_third_of_a_hundred_sessions_is_seen(agents: dict[str, Tasks], fault: str) -> None:
    policy = load_policy(POLICY, build_registry(), file="policy.yaml")
    for name, tasks in join(agents).items():
        drawn = random.Random(f"{fault} {name}")
        old, new = split(tasks, 100, drawn)
        assert ask(old, plant_into(new, PLANTS[fault], 0.3, drawn), policy)[0].trips
