"""Scenes for tests: what a player recorded, read back as every other command reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stream_guard_contract.drive import Player, Unit
from stream_guard_contract.forms import Scenario
from stream_guard_contract.labels import PROMPT, SCENARIO, read_labels
from stream_guard_contract.recording import decode_events
from stream_guard_contract.scene import Scene
from stream_guard_contract.stage import STAGE
from stream_guard_contract.storm import Storm

from stream_guard.model import Event, ToolResult, Turn
from stream_guard.registry import build_registry


def weather(**faults: Any) -> Scenario:
    return Scenario.model_validate({"name": "storm", **faults})


def play(player: Player, scenario: Scenario, prompt: str = "What is ACME worth?", seed: str = "0") -> list[Event]:
    """Play one scene and return its events."""
    labels = {SCENARIO: scenario.name, PROMPT: prompt}
    unit = Unit(session_id="s1", scenario=scenario, prompt=prompt, labels=labels, seed=seed)
    return read_back(player.play(unit))


def read_back(lines: bytes) -> list[Event]:
    return decode_events(lines, build_registry().decoders["native"](), "test")


@contextmanager
def scene(scenario: Scenario, *, has_model: bool = True) -> Iterator[Scene]:
    """Put a scene on the stage of this process, as a player does."""
    playing = Scene("s1", {}, Storm(scenario, "0", has_model=has_model))
    STAGE.scene = playing
    try:
        yield playing
    finally:
        STAGE.scene = None


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
