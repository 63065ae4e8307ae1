"""The weather of one cell: which of its scenario's faults come, and on which call.

Whether the n-th call meets a fault depends on the seed, the fault and n, and on nothing else: not on the order of
cells, not on threads, not on the clock. The same seed gives the same weather again.
"""

from __future__ import annotations

import random
from fnmatch import fnmatchcase
from typing import NamedTuple

from stream_guard_contract.attacks import Surface, planted_text, surface_of
from stream_guard_contract.faults import triggers
from stream_guard_contract.forms import ContextAttack, LlmFault, Scenario, ToolFault
from stream_guard_contract.labels import FaultMet


class ToolHit(NamedTuple):
    """A fault that a call of a tool meets."""

    met: FaultMet
    fault: ToolFault


class ModelHit(NamedTuple):
    """A fault that a call of a model meets."""

    met: FaultMet
    fault: LlmFault


class Planted(NamedTuple):
    """A text that an attack slips in, and how."""

    met: FaultMet
    text: str
    strategy: str | None


class Storm:
    """Decides call by call; holds no lock, its cell has one."""

    def __init__(self, scenario: Scenario, seed: str, *, has_model: bool) -> None:
        self._scenario = scenario
        self._seed = seed
        self._calls: dict[FaultMet, int] = {}  # calls that a fault could have come on
        self._attacks: dict[Surface, list[tuple[FaultMet, ContextAttack]]] = {"tool": [], "model": [], "prompt": []}
        for number, attack in enumerate(scenario.context_attacks):
            met = FaultMet("context_attacks", number, attack.type)
            self._attacks[surface_of(attack, has_model=has_model)].append((met, attack))

    def on_tool(self, tool: str, url: str = "") -> ToolHit | None:
        """Return the first fault that this call of the tool meets; every fault that is meant for it counts the call."""
        hits = [
            ToolHit(met, fault)
            for number, fault in enumerate(self._scenario.tool_faults)
            if _is_meant(fault, tool, url)
            and self._comes(met := FaultMet("tool_faults", number, fault.mode), fault.probability, fault.after_calls)
        ]
        return hits[0] if hits else None

    def on_model(self) -> ModelHit | None:
        """Return the first fault that this call of the model meets; every fault counts the call."""
        hits = [
            ModelHit(met, fault)
            for number, fault in enumerate(self._scenario.llm_faults)
            if self._comes(met := FaultMet("llm_faults", number, fault.mode), fault.probability, fault.after_calls)
        ]
        return hits[0] if hits else None

    def plant(self, surface: Surface) -> list[Planted]:
        """Return what the attacks slip in at this place this time."""
        return [
            Planted(met, planted_text(attack, self._dice(met, "text")), attack.strategy)
            for met, attack in self._attacks[surface]
            if self._comes(met, attack.trigger_probability, None)
        ]

    def _comes(self, met: FaultMet, probability: float | None, after_calls: int | None) -> bool:
        call = self._calls[met] = self._calls.get(met, 0) + 1
        return triggers(probability, after_calls, call, lambda: self._dice(met, "comes").random())

    def _dice(self, met: FaultMet, purpose: str) -> random.Random:
        return random.Random(f"{self._seed}/{met}/{self._calls[met]}/{purpose}")  # noqa: S311  # weather, no secret


def _is_meant(fault: ToolFault, tool: str, url: str) -> bool:
    """Name and address both: a fault named for one tool must not reach another that lives at the same address."""
    return fnmatchcase(tool, fault.tool) and (fault.match_url is None or fnmatchcase(url, fault.match_url))
