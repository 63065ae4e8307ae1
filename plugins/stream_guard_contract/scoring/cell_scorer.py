"""From recorded sessions to cells: what a session counts for, the faults it met, what rules found, and the state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import msgspec

from stream_guard import Counts, Finding, Judge, Policy, ToolResult, Turn, redact_text
from stream_guard.documents import listed, printable, show
from stream_guard_contract.document import TYPES, Contract, Invariant, Scenario, ToolFault, When
from stream_guard_contract.recording import (
    FAULT_CATEGORIES,
    Fault,
    FaultId,
    RecordedSession,
    SessionLabels,
    answer_text,
    calls_tools,
    declared_faults,
)
from stream_guard_contract.scoring.compiling import CompiledContract
from stream_guard_contract.scoring.matrix import Cell, CellState, Exercised, ScenarioReport

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


# Whether the agent met the faults of a scenario: what the scenario declares, and what the recordings show.

Exposure: TypeAlias = Literal["met", "not met", "unknown"]

_WHEN_HOLDS: Final[dict[str, Callable[[frozenset[str]], bool]]] = {
    "tool_faults_active": lambda categories: "tool_faults" in categories,
    "llm_faults_active": lambda categories: "llm_faults" in categories,
    "any_chaos_active": bool,
    "no_chaos": lambda categories: not categories,
}
_CATEGORIES_OF: Final[dict[str, tuple[str, ...]]] = {
    "tool_faults_active": ("tool_faults",),
    "llm_faults_active": ("llm_faults",),
}
_ABOUT_FAULTS: Final = frozenset(("tool_faults_active", "llm_faults_active", "any_chaos_active"))
_ENDS_IN_ERROR: Final = frozenset(("error", "timeout"))


class FaultExposure:
    """One scenario, its recorded sessions, and which of its declared faults the agent met in them."""

    def __init__(self, scenario: Scenario, sessions: Sequence[RecordedSession]) -> None:
        self.scenario = scenario
        self.name = scenario.name
        self.sessions = sessions
        self._exposures = {
            fault_id: _exposure(fault_id, fault, sessions) for fault_id, fault in declared_faults(scenario)
        }
        self._unexposed: dict[tuple[str, str], bool] = {}
        self._exercised: dict[str, Exercised] = {}
        self._declared: frozenset[str] = frozenset([fault_id.category for fault_id in self._exposures])

    def holds(self, when: When, session: RecordedSession | None = None) -> bool:
        """Whether ``when`` holds in the scenario; faults that the session shows count like declared ones."""
        if when == "always":
            return True
        return _WHEN_HOLDS[when](self._declared | session.categories_met if session else self._declared)

    def is_unexposed(self, when: When, session: RecordedSession) -> bool:
        """Whether ``when`` is about faults, and the session proves that the agent met none of them."""
        if when not in _ABOUT_FAULTS:
            return False
        key = when, session.session_id
        if key not in self._unexposed:
            categories = _CATEGORIES_OF.get(when, FAULT_CATEGORIES)
            faults = [item for item in declared_faults(self.scenario) if item[0].category in categories]
            none_met = all(_exposure(fault_id, fault, (session,)) == "not met" for fault_id, fault in faults)
            self._unexposed[key] = none_met and not session.categories_met & set(categories)
        return self._unexposed[key]

    def exercised(self, when: When = "always") -> Exercised:
        """Return whether the faults that ``when`` is about reached the agent."""
        if when not in self._exercised:
            self._exercised[when] = self._exercised_in(_CATEGORIES_OF.get(when, FAULT_CATEGORIES))
        return self._exercised[when]

    def _exercised_in(self, categories: Sequence[str]) -> Exercised:
        exposures = [exposure for fault_id, exposure in self._exposures.items() if fault_id.category in categories]
        if not exposures:
            return "calm"
        if "met" in exposures:
            return "yes"
        return "unknown" if "unknown" in exposures else "no"

    def report(self) -> ScenarioReport:
        """Return the scenario's entry in the matrix."""
        return ScenarioReport(
            name=self.name,
            sessions=len(self.sessions),
            exercised=self.exercised(),
            declared=tuple(map(str, self._exposures)),
            not_met=tuple(str(fault_id) for fault_id, exposure in self._exposures.items() if exposure == "not met"),
        )


def _exposure(fault_id: FaultId, fault: Fault, sessions: Sequence[RecordedSession]) -> Exposure:
    """Return whether the agent met the fault, as far as the recordings show."""
    identity = fault_id.category, fault_id.number
    if any((met.category, met.number) == identity for session in sessions for met in session.labels.faults):
        return "met"
    if not sessions:
        return "unknown"
    unwatched = [session for session in sessions if fault_id.category not in session.labels.watched]
    if not unwatched:
        return "not met"
    return _unlabelled_exposure(fault, unwatched) if isinstance(fault, ToolFault) else "unknown"


def _unlabelled_exposure(fault: ToolFault, sessions: Sequence[RecordedSession]) -> Exposure:
    """Return the exposure to a tool fault from the tool results alone, for sessions without fault labels."""
    if not all(map(calls_tools, sessions)):
        return "unknown"
    results = [
        event
        for session in sessions
        for event in session.events
        if isinstance(event, ToolResult) and fnmatchcase(event.tool, fault.tool)
    ]
    if not results:
        return "not met"
    if fault.mode not in _ENDS_IN_ERROR:
        return "unknown"
    return "met" if any(result.status == "error" for result in results) else "not met"


# Runs recorded sessions through the engine, each with the rules of the invariants that it counts for.


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


# Turns the rule results of each session into the state of a cell, with the reason and the place.

_PERSONAL: Final = frozenset(("excludes_pii", "no_pii"))
_MAIL: Final = re.compile(r"[^\s@]{1,64}@[^\s@]{1,255}")
_DIGITS: Final = re.compile("[0-9]")
_NEVER_CAME: Final = "no fault that it is about ever reached the agent"

# Before Python 3.12 an enum member is slower to look up than a module name, and every cell does it.
_PASS: Final = CellState.PASS
_FAIL: Final = CellState.FAIL

Outcome: TypeAlias = Literal[CellState.PASS, CellState.FAIL, CellState.TIMEOUT, CellState.INCONCLUSIVE]


class _SessionOutcome:
    """What one session means for one invariant."""

    __slots__ = ("event_id", "outcome", "reason", "session")

    def __init__(
        self, outcome: Outcome, reason: str, session: RecordedSession | None = None, event_id: str = ""
    ) -> None:
        self.outcome = outcome
        self.reason = reason
        self.session = session
        self.event_id = event_id


class ScoredInvariant:
    """An invariant, with everything about it that is the same in every scenario."""

    __slots__ = (
        "id",
        "invariant",
        "is_compared",
        "is_inverted",
        "is_personal",
        "needs_answer",
        "pass_reason",
        "prompts",
        "rules",
        "severity",
        "weight",
        "when",
    )

    def __init__(self, invariant: Invariant, contract: Contract, compiled: CompiledContract) -> None:
        self.invariant = invariant
        # What every cell reads is kept here: to read it from a section of the file takes longer.
        self.id = invariant.id
        self.severity: str = invariant.severity
        self.when: When = invariant.when
        self.weight = invariant.weight
        self.rules = tuple(compiled.rules[invariant.id])  # indexes in the policy
        self.prompts = contract.prompts(invariant)
        self.pass_reason = f"{invariant.type} holds, negated" if invariant.negate else f"{invariant.type} holds"
        self.needs_answer = invariant.type in TYPES  # rule kinds can judge a session without an answer
        self.is_inverted = invariant.id in compiled.inverted
        self.is_compared = invariant.type == "behavior_unchanged"
        self.is_personal = invariant.type in _PERSONAL


class CellScorer:
    """Decides the state of each cell, one scenario at a time."""

    def __init__(
        self,
        invariants: Sequence[ScoredInvariant],
        completes: int,
        results: Mapping[str, SessionRuleResults],
        baselines: frozenset[str],
        baseline_scenario: str,
    ) -> None:
        self._invariants = invariants
        self._completes = completes  # the index of the rule that every contract has
        self._results = results
        self._baselines = baselines
        self._baseline_scenario = baseline_scenario
        self._quoted: tuple[RecordedSession | None, str, str] = (None, "", "")  # the last session, event and excerpt

    def cells(self, exposure: FaultExposure, recorded: Sequence[list[RecordedSession]]) -> list[Cell]:
        """Return the cells of a scenario; ``recorded`` has for each invariant, by index, its sessions there."""
        return [
            self._decide(scored, exposure, sessions)
            for scored, sessions in zip(self._invariants, recorded, strict=True)
        ]

    def _decide(self, scored: ScoredInvariant, exposure: FaultExposure, sessions: list[RecordedSession]) -> Cell:
        when = scored.when
        applicable = sessions if when == "always" else [one for one in sessions if exposure.holds(when, one)]
        if why := self._not_applicable(scored, exposure, sessions, applicable):
            return self._cell(scored, exposure, CellState.NOT_APPLICABLE, _SessionOutcome(_PASS, why), 0)
        exposed = (
            applicable if when == "always" else [one for one in applicable if not exposure.is_unexposed(when, one)]
        )
        if applicable and not exposed:
            unexposed = _SessionOutcome(_PASS, _NEVER_CAME, applicable[0], _answer_id(applicable[0]))
            return self._cell(scored, exposure, CellState.NOT_EXERCISED, unexposed, 0)
        outcomes = [self._judge(scored, session) for session in exposed]
        outcomes += _missing(scored, sessions)
        worst = outcomes[0] if len(outcomes) == 1 else _worst(outcomes)
        if worst.outcome is _PASS and exposure.exercised(when) == "no":
            unexercised = _SessionOutcome(_PASS, f"it held, but {_NEVER_CAME}", worst.session, worst.event_id)
            return self._cell(scored, exposure, CellState.NOT_EXERCISED, unexercised, len(exposed))
        return self._cell(scored, exposure, worst.outcome, worst, len(exposed))

    def _not_applicable(
        self,
        scored: ScoredInvariant,
        exposure: FaultExposure,
        sessions: list[RecordedSession],
        applicable: list[RecordedSession],
    ) -> str:
        """Return why the invariant does not apply in this scenario, or an empty text."""
        if not applicable and (sessions or not exposure.holds(scored.when)):
            return f"when: {scored.when}, and that is not so in this scenario"
        auto = scored.is_compared and scored.invariant.baseline in (None, "auto")
        if auto and self._baseline_scenario == exposure.name:
            return "its answers are the baseline"
        return ""

    def _judge(self, scored: ScoredInvariant, session: RecordedSession) -> _SessionOutcome:
        """Return what one session means for the invariant."""
        results = self._results[session.session_id]
        answer = session.answer
        answer_id = session.events[-1].event_id if answer is None else answer.event_id
        if answer is None and scored.needs_answer:
            return _SessionOutcome(_FAIL, "the agent gave no answer", session, answer_id)
        found = results.found
        finding = found.get(self._completes) if found else None
        if finding is not None and (scored.needs_answer or finding.at == "event"):
            state: Outcome = CellState.TIMEOUT if session.labels.is_overdue else _FAIL
            return _SessionOutcome(state, finding.detail, session, finding.event_id)
        if scored.is_compared and (why := self._no_baseline(scored.invariant, session)):
            return _SessionOutcome(CellState.INCONCLUSIVE, why, session, answer_id)
        return _from_rules(scored, results, session, answer_id)

    def _no_baseline(self, invariant: Invariant, session: RecordedSession) -> str:
        if invariant.baseline not in (None, "auto") or session.labels.prompt in self._baselines:
            return ""
        return "there is no baseline to compare with: no session without faults was recorded for this prompt"

    def _cell(
        self,
        scored: ScoredInvariant,
        exposure: FaultExposure,
        state: CellState,
        decided_by: _SessionOutcome,
        sessions: int,
    ) -> Cell:
        session = decided_by.session
        return Cell(
            invariant=scored.id,
            scenario=exposure.name,
            severity=scored.severity,
            weight=scored.weight,
            state=state,
            reason=_safe(decided_by.reason),
            excerpt=self._excerpt(session, decided_by.event_id, hide=scored.is_personal and state is _FAIL),
            session_id="" if session is None else session.session_id,
            event_id=decided_by.event_id,
            sessions=sessions,
        )

    def _excerpt(self, session: RecordedSession | None, event_id: str, *, hide: bool) -> str:
        """Return the agent's text at the event, redacted and cut."""
        if session is None:
            return ""
        quoted, at_event, text = self._quoted
        if quoted is not session or at_event != event_id:  # all invariants of a scenario quote the same answers
            turns = [one for one in session.events if one.event_id == event_id and isinstance(one, Turn)]
            at = turns[0] if turns else session.answer
            text = "" if at is None else _safe(answer_text(at))
            self._quoted = session, event_id, text
        # A report that repeats the numbers and addresses it complains of would be the next leak.
        return _DIGITS.sub("#", _MAIL.sub("[masked]", text)) if hide else text


def _from_rules(
    scored: ScoredInvariant, results: SessionRuleResults, session: RecordedSession, answer_id: str
) -> _SessionOutcome:
    """Return the outcome of the invariant's rules for a session with an answer."""
    found, findings, unjudged = None, results.found, results.unjudged
    if findings:
        found_all = [findings[rule] for rule in scored.rules if rule in findings]
        found = found_all[0] if found_all else None
    if found is None and unjudged and not unjudged.isdisjoint(scored.rules):
        reason = "the recording leaves out what the invariant needs"
        return _SessionOutcome(CellState.INCONCLUSIVE, reason, session, answer_id)
    if scored.is_inverted:
        if found is not None:
            return _SessionOutcome(_PASS, f"negated, and {found.detail}", session, answer_id)
        reason = f"the answer keeps {scored.invariant.type}, and the invariant is negated"
        return _SessionOutcome(_FAIL, reason, session, answer_id)
    if found is not None:
        return _SessionOutcome(_FAIL, _why(scored.invariant, found), session, found.event_id)
    return _SessionOutcome(_PASS, scored.pass_reason, session, answer_id)


def _missing(scored: ScoredInvariant, sessions: list[RecordedSession]) -> list[_SessionOutcome]:
    """Return an inconclusive outcome where a prompt of the invariant has no recorded session."""
    prompts = scored.prompts
    if sessions and len(prompts) < 2:
        return []  # the sessions count for the invariant, so they were asked its only prompt
    recorded = {session.labels.prompt for session in sessions}
    missing = [prompt for prompt in prompts if prompt not in recorded]
    if missing:
        reason = f"no session was recorded for the prompt {show(missing[0])}"
        return [_SessionOutcome(CellState.INCONCLUSIVE, reason)]
    return [] if sessions else [_SessionOutcome(CellState.INCONCLUSIVE, "no session was recorded for it")]


def _worst(outcomes: list[_SessionOutcome]) -> _SessionOutcome:
    """Return the first failure, else the first timeout, else the first inconclusive outcome, else the first."""
    failed = [one for one in outcomes if one.outcome is _FAIL]
    overdue = [one for one in outcomes if one.outcome is CellState.TIMEOUT]
    unclear = [one for one in outcomes if one.outcome is CellState.INCONCLUSIVE]
    return [*failed, *overdue, *unclear, outcomes[0]][0]


def _why(invariant: Invariant, finding: Finding) -> str:
    """Return the reason in the contract's own terms: the compiled rule has the pattern in another spelling."""
    if finding.kind == "forbidden_text" and invariant.type in TYPES:
        return f"{show(finding.evidence.get('found', ''))} occurs in the answer"
    if finding.kind == "must_match_text" and invariant.type in TYPES:
        if invariant.type == "regex":
            return _unmatched(str(invariant.pattern))
        texts = [invariant.value] if invariant.value is not None else invariant.values or invariant.patterns or []
        return _lacking(tuple(map(str, texts)))
    return finding.detail


@lru_cache(maxsize=1024)
def _unmatched(pattern: str) -> str:
    return f"nothing in the answer matches {show(pattern)}"


@lru_cache(maxsize=1024)
def _lacking(texts: tuple[str, ...]) -> str:
    return f"the answer has {'no' if len(texts) == 1 else 'none of'} {listed(texts, 'or')}"


def _answer_id(session: RecordedSession) -> str:
    return session.events[-1].event_id if session.answer is None else session.answer.event_id


@lru_cache(maxsize=1024)
def _safe(text: str) -> str:
    """Return the text redacted and cut; cached, because many cells have the same reason."""
    return printable(redact_text(text))
