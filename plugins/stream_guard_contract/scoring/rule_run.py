"""Runs recorded sessions through the engine, each with the rules of the invariants that it counts for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from stream_guard import Counts, Finding, Policy, open_table
from stream_guard_contract.document.loading import Contract
from stream_guard_contract.recording.session_reader import RecordedSession
from stream_guard_contract.scoring.compiling import CompiledContract
from stream_guard_contract.scoring.session_scope import SessionScope


@dataclass(slots=True)
class SessionRuleResults:
    """What the rules found in one session, by their index in the policy."""

    found: dict[int, Finding] = field(default_factory=dict)  # the first finding of each rule
    unjudged: set[int] = field(default_factory=set)  # rules that were unevaluable or failed


def run_rules(
    contract: Contract, compiled: CompiledContract, scope: SessionScope, sessions: Iterable[RecordedSession]
) -> dict[str, SessionRuleResults]:
    """Return the rule results of each session, by session id.

    A session only meets the rules of invariants in its scope: a probe is asked for one invariant.
    """
    runs: dict[tuple[int, ...], _RuleRun] = {}
    results: dict[str, SessionRuleResults] = {}
    for session in sessions:
        numbers = scope.invariants(session.labels)
        run = runs.get(numbers)
        if run is None:
            rules = {rule for number in numbers for rule in compiled.rules[contract.invariants[number].id]}
            run = runs[numbers] = _RuleRun(compiled.policy, sorted({*rules, compiled.completes}))
        results[session.session_id] = run.judge(session)
    return results


class _RuleRun:
    """A subset of the contract's rules; judges one session after the other."""

    def __init__(self, policy: Policy, positions: list[int]) -> None:
        self._positions = positions
        self._by_id: Mapping[str, int] = {policy.rules[position].id: position for position in positions}
        self._counts = Counts()
        rules = tuple(policy.rules[position] for position in positions)
        self._table = open_table(replace(policy, rules=rules), self._counts)

    def judge(self, session: RecordedSession) -> SessionRuleResults:
        """Return what the rules find in a session."""
        table, counts = self._table, self._counts
        found: list[Finding] = []
        for event in session.events:
            table.feed(event, found)
        if counts.sessions:  # most recordings end with a session end
            table.end_all(found)
        results = SessionRuleResults()
        for finding in found:
            if finding.kind != "rule_error":
                results.found.setdefault(self._by_id[finding.rule_id], finding)
        for counted in (counts.unevaluable, counts.rule_errors):
            if counted:
                results.unjudged.update(self._positions[number] for number in counted)
                counted.clear()
        return results
