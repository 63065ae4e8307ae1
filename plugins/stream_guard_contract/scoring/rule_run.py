"""Runs recorded sessions through the engine, each with the rules of the invariants that it counts for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from stream_guard import Counts, Finding, Judge, Policy
from stream_guard_contract.document.loading import Contract
from stream_guard_contract.recording.session_reader import RecordedSession
from stream_guard_contract.scoring.compiling import CompiledContract
from stream_guard_contract.scoring.session_scope import SessionScope


class SessionRuleResults(msgspec.Struct):
    """What the rules found in one session, by their index in the policy."""

    found: dict[int, Finding] = {}  # the first finding of each rule
    unjudged: set[int] = set()  # rules that were unevaluable or failed


class RuleRuns:
    """The rules of a contract, ready to judge recordings; used again, they need not be made again."""

    def __init__(self, contract: Contract, compiled: CompiledContract, scope: SessionScope) -> None:
        self._contract = contract
        self._compiled = compiled
        self._scope = scope
        self._runs: dict[tuple[int, ...], _RuleRun] = {}  # by the indexes of invariants

    def judge(self, sessions: Iterable[RecordedSession]) -> dict[str, SessionRuleResults]:
        """Return the rule results of each session, by session id.

        A session only meets the rules of invariants in its scope: a probe is asked for one invariant.
        """
        results: dict[str, SessionRuleResults] = {}
        for session in sessions:
            numbers = self._scope.invariants(session.labels)
            run = self._runs.get(numbers)
            if run is None:
                run = self._runs[numbers] = self._open_run(numbers)
            results[session.session_id] = run.judge(session)
        self._runs = {numbers: run for numbers, run in self._runs.items() if run.forget_sessions()}
        return results

    def _open_run(self, numbers: tuple[int, ...]) -> _RuleRun:
        compiled, invariants = self._compiled, self._contract.invariants
        rules = {rule for number in numbers for rule in compiled.rules[invariants[number].id]}
        return _RuleRun(compiled.policy, sorted({*rules, compiled.completes}))


class _RuleRun:
    """A subset of the contract's rules; judges one session after the other."""

    def __init__(self, policy: Policy, positions: list[int]) -> None:
        self._positions = positions
        self._by_id = {policy.rules[position].id: position for position in positions}
        self._counts = Counts()
        self._has_failed = False
        rules = tuple([policy.rules[position] for position in positions])
        self._judge = Judge(replace(policy, rules=rules), counts=self._counts)

    def judge(self, session: RecordedSession) -> SessionRuleResults:
        """Return what the rules find in a session."""
        judge, counts = self._judge, self._counts
        found: list[Finding] = []
        for event in session.events:
            found += judge.feed(event).findings
        if counts.sessions:  # most recordings end with a session end
            found += judge.end()
        results = SessionRuleResults()
        for finding in found:
            if finding.kind != "rule_error":
                results.found.setdefault(self._by_id[finding.rule_id], finding)
        if counts.rule_errors:
            self._has_failed = True
        for counted in (counts.unevaluable, counts.rule_errors):
            if counted:
                results.unjudged.update([self._positions[number] for number in counted])
                counted.clear()
        return results

    def forget_sessions(self) -> bool:
        """Forget sessions that were ended and could go on; return whether other recordings may be judged too.

        The engine runs a rule that has raised with more care from then on, and that must not depend on what was judged
        before.
        """
        self._judge.end()
        return not self._has_failed
