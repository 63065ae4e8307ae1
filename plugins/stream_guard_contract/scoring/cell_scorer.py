"""Turns the rule results of each session into the state of a cell, with the reason and the place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from stream_guard import Finding, Turn, redact_text
from stream_guard.documents import listed, printable, show
from stream_guard_contract.document.invariant_types import TYPES
from stream_guard_contract.document.loading import Contract
from stream_guard_contract.document.sections import Invariant, When
from stream_guard_contract.recording.session_reader import RecordedSession, answer_text
from stream_guard_contract.scoring.compiling import CompiledContract
from stream_guard_contract.scoring.fault_exposure import FaultExposure
from stream_guard_contract.scoring.matrix import Cell, CellState
from stream_guard_contract.scoring.rule_run import SessionRuleResults

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
