"""Scoring: recorded sessions of every scenario in, the matrix out. ``contract run`` ends here too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stream_guard.batch import open_table
from stream_guard.contract.compiling import Compiled, compile_contract
from stream_guard.contract.document import Contract
from stream_guard.contract.judging import Judge, SessionVerdicts, serves
from stream_guard.contract.matrix import Matrix, has_critical_failure, score_of
from stream_guard.contract.recorded import Recorded, read_sessions
from stream_guard.contract.weather import Weather
from stream_guard.counts import Counts
from stream_guard.model import Event, Finding
from stream_guard.policy.wording import printable, show
from stream_guard.registry import Registry


def score(contract: Contract, events: Iterable[Event], registry: Registry) -> Matrix:
    """Return the matrix of the recorded sessions; what could not be used is said in its notes."""
    attacked = {scenario.name for scenario in contract.scenarios if scenario.context_attacks}
    sorted_out = _sort(contract, read_sessions(events, attacked))
    baselines = _baselines(contract, sorted_out)
    compiled = compile_contract(contract, registry, baselines.texts)
    verdicts = _judge(sorted_out.by_scenario, compiled)
    weathers = [Weather(scenario, sorted_out.by_scenario.get(scenario.name, ())) for scenario in contract.scenarios]
    judge = Judge(contract, compiled, verdicts, baselines.prompts, baselines.scenario)
    cells = tuple(judge.cell(invariant, weather) for weather in weathers for invariant in contract.invariants)
    value = score_of(cells)
    critical = has_critical_failure(cells)
    return Matrix(
        contract=contract.name,
        score=value,
        passed=None if value is None else not critical,
        critical_failed=critical,
        cells=cells,
        scenarios=tuple(weather.report() for weather in weathers),
        notes=tuple(sorted_out.notes),
    )


@dataclass(slots=True)
class _Sorted:
    """The recorded sessions by what they are for."""

    by_scenario: dict[str, list[Recorded]] = field(default_factory=lambda: defaultdict(list))
    baseline: list[Recorded] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _sort(contract: Contract, sessions: Sequence[Recorded]) -> _Sorted:
    """Put every session where it belongs; one that belongs nowhere is reported, never dropped silently."""
    known = {scenario.name for scenario in contract.scenarios}
    result = _Sorted()
    lost: dict[str, list[str]] = defaultdict(list)
    for session in sessions:
        labels = session.labels
        if labels.conflict:
            lost[f"two values of the label {labels.conflict}"].append(session.session_id)
        elif labels.is_baseline:
            result.baseline.append(session)
        elif not labels.scenario:
            lost["no label `scenario`"].append(session.session_id)
        elif labels.scenario not in known:
            lost[f"the scenario {show(labels.scenario)}, which the contract does not have"].append(session.session_id)
        else:
            result.by_scenario[labels.scenario].append(session)
            if not any(serves(contract, invariant, session) for invariant in contract.invariants):
                lost["a prompt that the contract does not have"].append(session.session_id)
    for why, names in lost.items():
        shown = ", ".join(printable(name, 60) for name in names[:3]) + (", ..." if len(names) > 3 else "")
        result.notes.append(f"{len(names)} session(s) not used, with {why}: {shown}")
    return result


@dataclass(frozen=True, slots=True)
class _Baselines:
    texts: dict[str, str]
    prompts: frozenset[str]
    scenario: str  # whose answers they are; empty where they were recorded on their own


def _baselines(contract: Contract, sorted_out: _Sorted) -> _Baselines:
    """Return what the agent answers in calm weather: recorded on purpose, or in the first calm scenario."""
    if not any(one.type == "behavior_unchanged" for one in contract.invariants):
        return _Baselines({}, frozenset(), "")
    sessions, name = sorted_out.baseline, ""
    if not sessions:
        auto = any(one.baseline == "auto" for one in contract.invariants)
        calm = next((one.name for one in contract.scenarios if one.is_calm), "") if auto else ""
        sessions, name = sorted_out.by_scenario.get(calm, []), calm
    texts: dict[str, str] = {}
    for session in sessions:
        if session.answer is not None and not _failed(session):
            texts.setdefault(session.labels.prompt, session.text)
    return _Baselines(texts, frozenset(texts), name)


def _failed(session: Recorded) -> bool:
    """Whether the answer is an error, and so nothing to compare with."""
    response = session.answer.response if session.answer else {}
    return bool(response.get("error")) or response.get("stop_reason") == "error"


def _judge(by_scenario: dict[str, list[Recorded]], compiled: Compiled) -> dict[str, SessionVerdicts]:
    """Return, by session, what the rules found in it and which of them could not judge."""
    counts = Counts()
    table = open_table(compiled.policy, counts)
    positions = {rule.id: number for number, rule in enumerate(compiled.policy.rules)}
    verdicts: dict[str, SessionVerdicts] = {}
    for session in (one for sessions in by_scenario.values() for one in sessions):
        before = dict(counts.unevaluable), dict(counts.rule_errors)
        found: list[Finding] = []
        for event in session.events:
            table.feed(event, found)
        table.end_all(found)
        verdict = verdicts[session.session_id] = SessionVerdicts()
        for finding in found:
            if finding.kind != "rule_error":
                verdict.found.setdefault(positions[finding.rule_id], finding)
        for now, then in ((counts.unevaluable, before[0]), (counts.rule_errors, before[1])):
            verdict.unjudged |= {number for number, count in now.items() if count > then.get(number, 0)}
    return verdicts
