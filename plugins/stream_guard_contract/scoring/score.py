"""Scores recorded sessions with a contract that is made ready once for every set of recordings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from stream_guard import Event, Registry
from stream_guard.documents import printable, show
from stream_guard_contract.document import Contract
from stream_guard_contract.recording import RecordedSession, read_sessions
from stream_guard_contract.scoring.cell_scorer import CellScorer, FaultExposure, RuleRuns, ScoredInvariant, SessionScope
from stream_guard_contract.scoring.compiling import CompiledContract, compile_contract
from stream_guard_contract.scoring.matrix import Matrix, has_critical_failure, score_of


class ContractRules:
    """The rules of a contract that compares with certain baselines, and its invariants as they are scored."""

    def __init__(self, contract: Contract, compiled: CompiledContract, scope: SessionScope) -> None:
        self.completes = compiled.completes
        self.invariants = [ScoredInvariant(one, contract, compiled) for one in contract.invariants]
        self.runs = RuleRuns(contract, compiled, scope)


class PreparedContract:
    """A contract, the scope of its sessions, and the rules that were made of it last."""

    def __init__(self, contract: Contract, registry: Registry) -> None:
        self.contract = contract
        self.registry = registry
        self.scope = SessionScope(contract)
        self._baselines: dict[str, str] = {}
        self._rules: ContractRules | None = None

    def rules(self, baselines: dict[str, str]) -> ContractRules:
        """Return the rules that compare with these answers, which are by prompt."""
        if self._rules is None or self._baselines != baselines:
            compiled = compile_contract(self.contract, self.registry, baselines)
            self._rules, self._baselines = ContractRules(self.contract, compiled, self.scope), baselines
        return self._rules


# Of the contract that was scored last: its runs follow each other. One at a time uses it.
_idle: Final[list[PreparedContract]] = []


def take(contract: Contract, registry: Registry) -> PreparedContract:
    """Return the contract, prepared: as it was given back, or anew."""
    try:
        prepared = _idle.pop()  # at once, not after a look: another thread may want it too
    except IndexError:
        return PreparedContract(contract, registry)
    is_same = prepared.contract is contract and prepared.registry is registry
    return prepared if is_same else PreparedContract(contract, registry)


def give_back(prepared: PreparedContract) -> None:
    """Keep what was prepared for the next time."""
    _idle[:] = [prepared]


# Scores recorded sessions: ``contract score`` and ``contract run`` both make their matrix here.


def score(contract: Contract, events: Iterable[Event], registry: Registry) -> Matrix:
    """Return the matrix of the recorded sessions; its notes name the sessions that could not be used."""
    attacked = {scenario.name for scenario in contract.scenarios if scenario.context_attacks}
    prepared = take(contract, registry)
    scope = prepared.scope
    recorded = _sort_sessions(contract, scope, read_sessions(events, attacked))
    baselines = _baselines(contract, recorded)
    rules = prepared.rules(baselines.texts)
    results = rules.runs.judge(session for sessions in recorded.by_scenario.values() for session in sessions)
    exposures = [
        FaultExposure(scenario, recorded.by_scenario.get(scenario.name, ())) for scenario in contract.scenarios
    ]
    scorer = CellScorer(rules.invariants, rules.completes, results, frozenset(baselines.texts), baselines.scenario)
    cells = tuple(
        cell for exposure in exposures for cell in scorer.cells(exposure, scope.by_invariant(exposure.sessions))
    )
    give_back(prepared)
    value = score_of(cells)
    critical = has_critical_failure(cells)
    return Matrix(
        contract=contract.name,
        score=value,
        passed=None if value is None else not critical,
        critical_failed=critical,
        cells=cells,
        scenarios=tuple(exposure.report() for exposure in exposures),
        notes=tuple(recorded.notes),
    )


@dataclass(slots=True)
class _SortedSessions:
    """The recorded sessions by scenario, the baseline sessions, and notes on unused ones."""

    by_scenario: dict[str, list[RecordedSession]] = field(default_factory=lambda: defaultdict(list))
    baseline: list[RecordedSession] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _sort_sessions(contract: Contract, scope: SessionScope, sessions: Sequence[RecordedSession]) -> _SortedSessions:
    """Group the sessions; a session that cannot be used is reported in the notes, never dropped silently."""
    known = {scenario.name for scenario in contract.scenarios}
    result = _SortedSessions()
    unused: dict[str, list[str]] = defaultdict(list)  # session ids by reason
    for session in sessions:
        labels = session.labels
        if labels.conflict:
            unused[f"two values of the label {labels.conflict}"].append(session.session_id)
        elif labels.is_baseline:
            result.baseline.append(session)
        elif not labels.scenario:
            unused["no label `scenario`"].append(session.session_id)
        elif labels.scenario not in known:
            unused[f"the scenario {show(labels.scenario)}, which the contract does not have"].append(session.session_id)
        else:
            result.by_scenario[labels.scenario].append(session)
            if not scope.invariants(labels):
                unused["a prompt that the contract does not have"].append(session.session_id)
    for why, names in unused.items():
        shown = ", ".join(printable(name, 60) for name in names[:3]) + (", ..." if len(names) > 3 else "")
        result.notes.append(f"{len(names)} session(s) not used, with {why}: {shown}")
    return result


@dataclass(frozen=True, slots=True)
class _Baselines:
    """The answers that ``behavior_unchanged`` compares with."""

    texts: dict[str, str]  # by prompt
    scenario: str  # the scenario they come from; empty where they were recorded as baselines


def _baselines(contract: Contract, recorded: _SortedSessions) -> _Baselines:
    """Return the answers without faults: those recorded as baselines, else those of the first calm scenario."""
    if not any(one.type == "behavior_unchanged" for one in contract.invariants):
        return _Baselines({}, "")
    sessions, name = recorded.baseline, ""
    if not sessions:
        auto = any(one.baseline == "auto" for one in contract.invariants)
        calm = next((one.name for one in contract.scenarios if one.is_calm), "") if auto else ""
        sessions, name = recorded.by_scenario.get(calm, []), calm
    texts: dict[str, str] = {}
    for session in sessions:
        if session.answer is not None and not _failed(session):
            texts.setdefault(session.labels.prompt, session.text)
    return _Baselines(texts, name)


def _failed(session: RecordedSession) -> bool:
    """Whether the answer is an error, which is no baseline."""
    response = session.answer.response if session.answer else {}
    return bool(response.get("error")) or response.get("stop_reason") == "error"
