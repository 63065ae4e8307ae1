"""From what the rules found in each session to the state of a cell, with the reason and the place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from stream_guard.model import Finding, Turn
from stream_guard.policy.wording import listed, printable, show
from stream_guard.redaction import redact_text
from stream_guard_contract.compiling import Compiled
from stream_guard_contract.document import Contract
from stream_guard_contract.forms import Invariant
from stream_guard_contract.hearing import SessionVerdicts
from stream_guard_contract.matrix import Cell, State
from stream_guard_contract.recorded import Recorded, answer_text
from stream_guard_contract.types import TYPES
from stream_guard_contract.weather import Weather

_PERSONAL: Final = frozenset(("excludes_pii", "no_pii"))
_MAIL: Final = re.compile(r"[^\s@]{1,64}@[^\s@]{1,255}")
_DIGITS: Final = re.compile("[0-9]")
_NEVER_CAME: Final = "no fault that it is about ever reached the agent"

# Looked up once: before Python 3.12 that takes longer in an enum than in a module, and it is done in every cell.
_PASS: Final = State.PASS
_FAIL: Final = State.FAIL

Outcome: TypeAlias = Literal[State.PASS, State.FAIL, State.INCONCLUSIVE]


class _Said(msgspec.Struct, frozen=True):
    """What one session means for one invariant."""

    outcome: Outcome
    reason: str
    session: Recorded | None = None
    event_id: str = ""


class _Promise(msgspec.Struct, frozen=True):
    """An invariant, and what of it is the same in every scenario."""

    invariant: Invariant
    weight: int
    rules: tuple[int, ...]  # positions in the policy
    prompts: tuple[str, ...]
    held: str  # the reason of a cell that passes
    about_answers: bool  # a rule kind may have something to say without an answer
    is_inverted: bool


class Judge:
    """Decides cells, one scenario at a time."""

    def __init__(
        self,
        contract: Contract,
        compiled: Compiled,
        verdicts: Mapping[str, SessionVerdicts],
        baselines: frozenset[str],
        baseline_scenario: str,
    ) -> None:
        self._promises = [_promise(invariant, contract, compiled) for invariant in contract.invariants]
        self._completes = compiled.completes
        self._verdicts = verdicts
        self._baselines = baselines
        self._baseline_scenario = baseline_scenario
        self._quoted: dict[tuple[str, str], str] = {}  # by session and event

    def cells(self, weather: Weather, recorded: Sequence[list[Recorded]]) -> list[Cell]:
        """Return the cells of a scenario; ``recorded`` are, for each invariant in turn, the sessions for both."""
        return [
            self._decide(promise, weather, sessions) for promise, sessions in zip(self._promises, recorded, strict=True)
        ]

    def _decide(self, promise: _Promise, weather: Weather, sessions: list[Recorded]) -> Cell:
        when = promise.invariant.when
        asked = sessions if when == "always" else [one for one in sessions if weather.holds(when, one)]
        if why := self._not_applicable(promise.invariant, weather, sessions, asked):
            return self._cell(promise, weather, State.NOT_APPLICABLE, _Said(_PASS, why), 0)
        stormy = asked if when == "always" else [one for one in asked if not weather.is_known_calm(when, one)]
        if asked and not stormy:
            said_of_none = _Said(_PASS, _NEVER_CAME, asked[0], _answer_id(asked[0]))
            return self._cell(promise, weather, State.NOT_EXERCISED, said_of_none, 0)
        said = [self._judge(promise, session) for session in stormy]
        said += _missing(promise, sessions)
        worst = said[0] if len(said) == 1 else _worst(said)
        if worst.outcome is _PASS and weather.exercised(when) == "no":
            held = replace(worst, reason=f"it held, but {_NEVER_CAME}")
            return self._cell(promise, weather, State.NOT_EXERCISED, held, len(stormy))
        return self._cell(promise, weather, worst.outcome, worst, len(stormy))

    def _not_applicable(
        self, invariant: Invariant, weather: Weather, sessions: list[Recorded], asked: list[Recorded]
    ) -> str:
        """Return why the invariant is not asked about in this scenario, or nothing."""
        if not asked and (sessions or not weather.holds(invariant.when)):
            return f"when: {invariant.when}, and that is not so in this scenario"
        auto = invariant.type == "behavior_unchanged" and invariant.baseline in (None, "auto")
        if auto and self._baseline_scenario == weather.scenario.name:
            return "its answers are the baseline"
        return ""

    def _judge(self, promise: _Promise, session: Recorded) -> _Said:
        """Return what one session says about the invariant."""
        invariant, verdict = promise.invariant, self._verdicts[session.session_id]
        answer_id = _answer_id(session)
        if session.answer is None and promise.about_answers:
            return _Said(_FAIL, "the agent gave no answer", session, answer_id)
        finding = verdict.found.get(self._completes)
        if finding is not None and (promise.about_answers or finding.at == "event"):
            return _Said(_FAIL, finding.detail, session, finding.event_id)
        if invariant.type == "behavior_unchanged" and (why := self._no_baseline(invariant, session)):
            return _Said(State.INCONCLUSIVE, why, session, answer_id)
        return _hear(promise, verdict, session, answer_id)

    def _no_baseline(self, invariant: Invariant, session: Recorded) -> str:
        if invariant.baseline not in (None, "auto") or session.labels.prompt in self._baselines:
            return ""
        return "there is no baseline to compare with: no session of calm weather was recorded for this prompt"

    def _cell(self, promise: _Promise, weather: Weather, state: State, said: _Said, sessions: int) -> Cell:
        session, invariant = said.session, promise.invariant
        return Cell(
            invariant=invariant.id,
            scenario=weather.scenario.name,
            severity=invariant.severity,
            weight=promise.weight,
            state=state,
            reason=_safe(said.reason),
            excerpt=self._excerpt(session, said.event_id, hide=state is _FAIL and invariant.type in _PERSONAL),
            session_id="" if session is None else session.session_id,
            event_id=said.event_id,
            sessions=sessions,
        )

    def _excerpt(self, session: Recorded | None, event_id: str, *, hide: bool) -> str:
        """Return what the agent said at the place, as much of it as may leave the building."""
        if session is None:
            return ""
        place = session.session_id, event_id
        text = self._quoted.get(place)
        if text is None:  # all invariants of a scenario quote the same answers
            said = (one for one in session.events if one.event_id == event_id and isinstance(one, Turn))
            at = next(said, session.answer)
            text = self._quoted[place] = "" if at is None else _safe(answer_text(at))
        # A report that repeats the numbers and addresses it complains of would be the next leak.
        return _DIGITS.sub("#", _MAIL.sub("[masked]", text)) if hide else text


def _promise(invariant: Invariant, contract: Contract, compiled: Compiled) -> _Promise:
    return _Promise(
        invariant,
        weight=invariant.weight,
        rules=tuple(compiled.rules[invariant.id]),
        prompts=contract.prompts(invariant),
        held=f"{invariant.type} holds, negated" if invariant.negate else f"{invariant.type} holds",
        about_answers=invariant.type in TYPES,
        is_inverted=invariant.id in compiled.inverted,
    )


def _hear(promise: _Promise, verdict: SessionVerdicts, session: Recorded, answer_id: str) -> _Said:
    """Return what the rules of the invariant say about an answer that came."""
    found = None
    if verdict.found:
        found = next((verdict.found[rule] for rule in promise.rules if rule in verdict.found), None)
    if found is None and not verdict.unjudged.isdisjoint(promise.rules):
        return _Said(State.INCONCLUSIVE, "the recording leaves out what the invariant needs", session, answer_id)
    if promise.is_inverted:
        if found is not None:
            return _Said(_PASS, f"negated, and {found.detail}", session, answer_id)
        kept = f"the answer keeps {promise.invariant.type}, and the invariant is negated"
        return _Said(_FAIL, kept, session, answer_id)
    if found is not None:
        return _Said(_FAIL, _why(promise.invariant, found), session, found.event_id)
    return _Said(_PASS, promise.held, session, answer_id)


def _missing(promise: _Promise, sessions: list[Recorded]) -> list[_Said]:
    """What was to be asked and was not recorded."""
    prompts = promise.prompts
    if sessions and len(prompts) < 2:
        return []  # they were recorded for the invariant, so it is the one that they were asked
    recorded = {session.labels.prompt for session in sessions}
    missing = [prompt for prompt in prompts if prompt not in recorded]
    if missing:
        return [_Said(State.INCONCLUSIVE, f"no session was recorded for the prompt {show(missing[0])}")]
    return [] if sessions else [_Said(State.INCONCLUSIVE, "no session was recorded for it")]


def _worst(said: list[_Said]) -> _Said:
    """Return the first failure, else the first that says too little, else the first."""
    failed = (one for one in said if one.outcome is _FAIL)
    unclear = (one for one in said if one.outcome is State.INCONCLUSIVE)
    return next(failed, None) or next(unclear, said[0])


def _why(invariant: Invariant, finding: Finding) -> str:
    """Return the reason in the words of the contract: its rule knows the pattern in another spelling."""
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


def _answer_id(session: Recorded) -> str:
    return session.events[-1].event_id if session.answer is None else session.answer.event_id


@lru_cache(maxsize=1024)
def _safe(text: str) -> str:
    """Mask and cut a text; many cells say the same."""
    return printable(redact_text(text))
