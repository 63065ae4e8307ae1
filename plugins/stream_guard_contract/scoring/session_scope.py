"""The scope of a recorded session: the invariants that it counts for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stream_guard_contract.document.loading import Contract
from stream_guard_contract.recording.labels import SessionLabels
from stream_guard_contract.recording.session_reader import RecordedSession

_MEMO_LIMIT: Final = 4096


class SessionScope:
    """Maps the labels of a session to the invariants that ask its prompt."""

    def __init__(self, contract: Contract) -> None:
        self._ids = [invariant.id for invariant in contract.invariants]
        self._probes = {probe for invariant in contract.invariants for probe in invariant.probes or ()}
        self._by_prompt: dict[str, list[int]] = {}
        self._without_prompts: list[int] = []
        for number, invariant in enumerate(contract.invariants):
            prompts = contract.prompts(invariant)
            for prompt in dict.fromkeys(prompts):
                self._by_prompt.setdefault(prompt, []).append(number)
            if not prompts:
                self._without_prompts.append(number)
        self._known: dict[tuple[str, str], tuple[int, ...]] = {}

    def invariants(self, labels: SessionLabels) -> tuple[int, ...]:
        """Return the indexes of the invariants that a session counts for, by its label or by its prompt."""
        key = labels.prompt, labels.invariant
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MEMO_LIMIT:  # recordings may have any prompts
                self._known.clear()
            numbers = self._by_prompt.get(labels.prompt, [])
            # An invariant without prompts takes every session, except those of another invariant's probe.
            if self._without_prompts and labels.prompt not in self._probes:
                numbers = sorted([*numbers, *self._without_prompts])
            known = tuple(number for number in numbers if labels.invariant in ("", self._ids[number]))
            self._known[key] = known
        return known

    def by_invariant(self, sessions: Iterable[RecordedSession]) -> list[list[RecordedSession]]:
        """Return for each invariant, by index, the sessions that count for it."""
        found: list[list[RecordedSession]] = [[] for _ in self._ids]
        for session in sessions:
            for number in self.invariants(session.labels):
                found[number].append(session)
        return found
