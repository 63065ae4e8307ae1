"""Scenario runs for tests: what a driver recorded, read back as every other command reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stream_guard_contract.document import Scenario
from stream_guard_contract.driver import AgentDriver, PlannedSession
from stream_guard_contract.faults import FaultPlan
from stream_guard_contract.recording import PROMPT, SCENARIO, decode_events, read_labels
from stream_guard_contract.scenario_run import ACTIVE_RUN, ScenarioRun

from stream_guard.judge.model import Event, ToolResult, Turn
from stream_guard.registry import build_registry


def scenario_with(**faults: Any) -> Scenario:
    return Scenario.model_validate({"name": "faulty", **faults})


def run_one(
    driver: AgentDriver, scenario: Scenario, prompt: str = "What is ACME worth?", seed: str = "0"
) -> list[Event]:
    """Run one session and return its events."""
    labels = {SCENARIO: scenario.name, PROMPT: prompt}
    planned = PlannedSession(session_id="s1", scenario=scenario, prompt=prompt, labels=labels, seed=seed)
    return read_back(driver.run_session(planned))


def read_back(lines: bytes) -> list[Event]:
    return decode_events(lines, build_registry().decoders["native"](), "test")


@contextmanager
def active_scenario(scenario: Scenario, *, has_model: bool = True) -> Iterator[ScenarioRun]:
    """Make a scenario run the active one of this process, as a driver does."""
    running = ScenarioRun("s1", {}, FaultPlan(scenario, "0", has_model=has_model))
    ACTIVE_RUN.run = running
    try:
        yield running
    finally:
        ACTIVE_RUN.run = None


def answer_of(events: list[Event]) -> str:
    turn = [event for event in events if isinstance(event, Turn)][-1]
    return "".join(block["text"] for block in turn.response["content"])


def failure_of(events: list[Event]) -> str:
    turn = [event for event in events if isinstance(event, Turn)][-1]
    return str(turn.response.get("error", ""))


def results(events: list[Event]) -> list[ToolResult]:
    return [event for event in events if isinstance(event, ToolResult)]


def met(events: list[Event]) -> set[str]:
    """The faults that the agent met, as the recording says it."""
    return {str(fault) for fault in read_labels(events).faults}
