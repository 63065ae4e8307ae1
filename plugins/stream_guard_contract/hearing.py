"""Recorded sessions go through the engine: each meets the rules of those invariants that it was recorded for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from stream_guard.model import Finding
from stream_guard.observability.counts import Counts
from stream_guard.pipeline import open_table
from stream_guard.policy.spec import Policy
from stream_guard_contract.compiling import Compiled
from stream_guard_contract.document import Contract
from stream_guard_contract.recorded import Recorded
from stream_guard_contract.serving import Serving


@dataclass(slots=True)
class SessionVerdicts:
    """What the rules said about one session, by their position in the policy."""

    found: dict[int, Finding] = field(default_factory=dict)  # the first finding of each rule
    unjudged: set[int] = field(default_factory=set)  # rules that lacked something, or failed


def hear(
    contract: Contract, compiled: Compiled, serving: Serving, sessions: Iterable[Recorded]
) -> dict[str, SessionVerdicts]:
    """Return, by session, what the rules found in it and which of them could not judge.

    A probe is asked for one invariant, so what all the others would say about its session is never looked at.
    """
    courts: dict[tuple[int, ...], _Court] = {}
    verdicts: dict[str, SessionVerdicts] = {}
    for session in sessions:
        numbers = serving.invariants(session.labels)
        court = courts.get(numbers)
        if court is None:
            asked = {rule for number in numbers for rule in compiled.rules[contract.invariants[number].id]}
            court = courts[numbers] = _Court(compiled.policy, sorted({*asked, compiled.completes}))
        verdicts[session.session_id] = court.hear(session)
    return verdicts


class _Court:
    """Some rules of a contract, ready to judge one session after the other."""

    def __init__(self, policy: Policy, positions: list[int]) -> None:
        self._positions = positions
        self._by_id: Mapping[str, int] = {policy.rules[position].id: position for position in positions}
        self._counts = Counts()
        rules = tuple(policy.rules[position] for position in positions)
        self._table = open_table(replace(policy, rules=rules), self._counts)

    def hear(self, session: Recorded) -> SessionVerdicts:
        """Return what the rules say about a session."""
        table, counts = self._table, self._counts
        found: list[Finding] = []
        for event in session.events:
            table.feed(event, found)
        if counts.sessions:  # most recordings say themselves where the session ends
            table.end_all(found)
        verdict = SessionVerdicts()
        for finding in found:
            if finding.kind != "rule_error":
                verdict.found.setdefault(self._by_id[finding.rule_id], finding)
        for counted in (counts.unevaluable, counts.rule_errors):
            if counted:
                verdict.unjudged.update(self._positions[number] for number in counted)
                counted.clear()
        return verdict
