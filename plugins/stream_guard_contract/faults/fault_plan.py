"""The fault plan of one session: which faults of its scenario occur, and on which call.

Whether call n meets a fault depends only on the seed, the fault and n. The order of cells, threads and the clock have
no influence. The same seed gives the same faults on the same calls.
"""

from __future__ import annotations

import random
from fnmatch import fnmatchcase
from typing import NamedTuple

from stream_guard_contract.document.sections import ContextAttack, LlmFault, Scenario, ToolFault
from stream_guard_contract.faults.attacks import Surface, injection_text, surface_of
from stream_guard_contract.faults.effects import triggers
from stream_guard_contract.recording.labels import FaultId


class TriggeredToolFault(NamedTuple):
    """A fault that one call of a tool meets."""

    fault_id: FaultId
    fault: ToolFault


class TriggeredModelFault(NamedTuple):
    """A fault that one call of the model meets."""

    fault_id: FaultId
    fault: LlmFault


class InjectedText(NamedTuple):
    """A text that a context attack injects, and where it goes: before, after or instead."""

    fault_id: FaultId
    text: str
    strategy: str | None


class FaultPlan:
    """Decides for each call which fault it meets. Not thread-safe: the scenario run that owns it holds a lock."""

    def __init__(self, scenario: Scenario, seed: str, *, has_model: bool) -> None:
        self._scenario = scenario
        self._seed = seed
        self._calls: dict[FaultId, int] = {}  # calls so far that the fault applies to
        self._attacks: dict[Surface, list[tuple[FaultId, ContextAttack]]] = {"tool": [], "model": [], "prompt": []}
        for number, attack in enumerate(scenario.context_attacks):
            fault_id = FaultId("context_attacks", number, attack.type)
            self._attacks[surface_of(attack, has_model=has_model)].append((fault_id, attack))

    def next_tool_fault(self, tool: str, url: str = "") -> TriggeredToolFault | None:
        """Count a call of the tool for every fault that applies to it; return the first fault that triggers."""
        triggered = None
        for number, fault in enumerate(self._scenario.tool_faults):
            if _applies(fault, tool, url):
                fault_id = FaultId("tool_faults", number, fault.mode)
                triggers_now = self._triggers(fault_id, fault.probability, fault.after_calls)
                if triggers_now and triggered is None:
                    triggered = TriggeredToolFault(fault_id, fault)
        return triggered

    def next_model_fault(self) -> TriggeredModelFault | None:
        """Count a call of the model for every model fault; return the first fault that triggers."""
        triggered = None
        for number, fault in enumerate(self._scenario.llm_faults):
            fault_id = FaultId("llm_faults", number, fault.mode)
            triggers_now = self._triggers(fault_id, fault.probability, fault.after_calls)
            if triggers_now and triggered is None:
                triggered = TriggeredModelFault(fault_id, fault)
        return triggered

    def injected_texts(self, surface: Surface) -> list[InjectedText]:
        """Return the texts that the attacks on this surface inject this time."""
        return [
            InjectedText(fault_id, injection_text(attack, self._random(fault_id, "text")), attack.strategy)
            for fault_id, attack in self._attacks[surface]
            if self._triggers(fault_id, attack.trigger_probability, None)
        ]

    def _triggers(self, fault_id: FaultId, probability: float | None, after_calls: int | None) -> bool:
        call = self._calls[fault_id] = self._calls.get(fault_id, 0) + 1
        return triggers(probability, after_calls, call, lambda: self._random(fault_id, "comes").random())

    def _random(self, fault_id: FaultId, purpose: str) -> random.Random:
        seed = f"{self._seed}/{fault_id}/{self._calls[fault_id]}/{purpose}"
        return random.Random(seed)  # noqa: S311  # fault injection, not cryptography


def _applies(fault: ToolFault, tool: str, url: str) -> bool:
    """Whether name and address both fit: a fault of one tool must not reach another at the same address."""
    return fnmatchcase(tool, fault.tool) and (fault.match_url is None or fnmatchcase(url, fault.match_url))
