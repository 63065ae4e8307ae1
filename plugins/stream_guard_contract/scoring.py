"""Scoring: recorded sessions of every scenario in, the matrix out. ``contract run`` ends here too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stream_guard.model import Event
from stream_guard.policy.wording import printable, show
from stream_guard.registry import Registry
from stream_guard_contract.compiling import compile_contract
from stream_guard_contract.document import Contract
from stream_guard_contract.hearing import hear
from stream_guard_contract.judging import Judge
from stream_guard_contract.matrix import Matrix, has_critical_failure, score_of
from stream_guard_contract.recorded import Recorded, read_sessions
from stream_guard_contract.serving import Serving
from stream_guard_contract.weather import Weather


def score(contract: Contract, events: Iterable[Event], registry: Registry) -> Matrix:
    """Return the matrix of the recorded sessions; what could not be used is said in its notes."""
    attacked = {scenario.name for scenario in contract.scenarios if scenario.context_attacks}
    serving = Serving(contract)
    sorted_out = _sort(contract, serving, read_sessions(events, attacked))
    baselines = _baselines(contract, sorted_out)
    compiled = compile_contract(contract, registry, baselines.texts)
    judged = (session for sessions in sorted_out.by_scenario.values() for session in sessions)
    verdicts = hear(contract, compiled, serving, judged)
    weathers = [Weather(scenario, sorted_out.by_scenario.get(scenario.name, ())) for scenario in contract.scenarios]
    judge = Judge(contract, compiled, verdicts, baselines.prompts, baselines.scenario)
    cells = tuple(cell for weather in weathers for cell in judge.cells(weather, serving.by_invariant(weather.sessions)))
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


def _sort(contract: Contract, serving: Serving, sessions: Sequence[Recorded]) -> _Sorted:
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
            if not serving.invariants(labels):
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
