"""Which invariants a recorded session speaks for: those that asked its prompt."""

from __future__ import annotations

from collections.abc import Iterable

from stream_guard_contract.document import Contract
from stream_guard_contract.labels import SessionLabels
from stream_guard_contract.recorded import Recorded


class Serving:
    """Knows by its labels what a session was recorded for; looked up by prompt, however many invariants there are."""

    def __init__(self, contract: Contract) -> None:
        self._ids = [invariant.id for invariant in contract.invariants]
        self._probes = {probe for invariant in contract.invariants for probe in invariant.probes or ()}
        self._asking: dict[str, list[int]] = {}
        self._not_asking: list[int] = []
        for number, invariant in enumerate(contract.invariants):
            prompts = contract.prompts(invariant)
            for prompt in dict.fromkeys(prompts):
                self._asking.setdefault(prompt, []).append(number)
            if not prompts:
                self._not_asking.append(number)
        self._known: dict[tuple[str, str], tuple[int, ...]] = {}

    def invariants(self, labels: SessionLabels) -> tuple[int, ...]:
        """Return the numbers of the invariants it was recorded for: for one by name, or by the prompt it was asked."""
        key = labels.prompt, labels.invariant
        known = self._known.get(key)
        if known is None:
            numbers = self._asking.get(labels.prompt, [])
            # Without golden prompts whatever was asked counts, but not what was asked as another invariant's probe.
            if self._not_asking and labels.prompt not in self._probes:
                numbers = sorted([*numbers, *self._not_asking])
            known = tuple(number for number in numbers if labels.invariant in ("", self._ids[number]))
            self._known[key] = known
        return known

    def by_invariant(self, sessions: Iterable[Recorded]) -> list[list[Recorded]]:
        """Return, for each invariant in turn, the sessions that were recorded for it."""
        found: list[list[Recorded]] = [[] for _ in self._ids]
        for session in sessions:
            for number in self.invariants(session.labels):
                found[number].append(session)
        return found
