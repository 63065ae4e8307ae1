"""From what the rules found in each session to the state of a cell, with the reason and the place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from stream_guard.contract.compiling import Compiled
from stream_guard.contract.document import Contract
from stream_guard.contract.forms import Invariant
from stream_guard.contract.hearing import SessionVerdicts
from stream_guard.contract.matrix import Cell, State
from stream_guard.contract.recorded import Recorded, answer_text
from stream_guard.contract.types import TYPES
from stream_guard.contract.weather import Weather
from stream_guard.model import Finding, Turn
from stream_guard.policy.wording import listed, printable, show
from stream_guard.redact import redact_text

_PERSONAL: Final = frozenset(("excludes_pii", "no_pii"))
_MAIL: Final = re.compile(r"[^\s@]{1,64}@[^\s@]{1,255}")
_DIGITS: Final = re.compile("[0-9]")
_NEVER_CAME: Final = "no fault that it is about ever reached the agent"

Outcome: TypeAlias = Literal[State.PASS, State.FAIL, State.INCONCLUSIVE]


class _Said(NamedTuple):
    """What one session means for one invariant."""

    outcome: Outcome
    reason: str
    session: Recorded | None = None
    event_id: str = ""


class Judge:
    """Decides cells, one at a time."""

    def __init__(
        self,
        contract: Contract,
        compiled: Compiled,
        verdicts: Mapping[str, SessionVerdicts],
        baselines: frozenset[str],
        baseline_scenario: str,
    ) -> None:
        self._contract = contract
        self._compiled = compiled
        self._verdicts = verdicts
        self._baselines = baselines
        self._baseline_scenario = baseline_scenario
        self._quoted: dict[tuple[str, str], str] = {}  # by session and event

    def cell(self, invariant: Invariant, weather: Weather, sessions: list[Recorded]) -> Cell:
        """Return the cell of an invariant in a scenario; ``sessions`` are those that were recorded for both."""
        when = invariant.when
        asked = sessions if when == "always" else [one for one in sessions if weather.holds(when, one)]
        if why := self._not_applicable(invariant, weather, sessions, asked):
            return self._cell(invariant, weather, State.NOT_APPLICABLE, _Said(State.PASS, why), 0)
        stormy = asked if when == "always" else [one for one in asked if not weather.is_known_calm(when, one)]
        if asked and not stormy:
            said_of_none = _Said(State.PASS, _NEVER_CAME, asked[0], _answer_id(asked[0]))
            return self._cell(invariant, weather, State.NOT_EXERCISED, said_of_none, 0)
        said = [self._judge(invariant, session) for session in stormy]
        said += self._missing(invariant, sessions)
        for outcome in (State.FAIL, State.INCONCLUSIVE):
            for one in said:
                if one.outcome is outcome:
                    return self._cell(invariant, weather, outcome, one, len(stormy))
        if weather.exercised(when) == "no":
            held = said[0]._replace(reason=f"it held, but {_NEVER_CAME}")
            return self._cell(invariant, weather, State.NOT_EXERCISED, held, len(stormy))
        return self._cell(invariant, weather, State.PASS, said[0], len(stormy))

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

    def _missing(self, invariant: Invariant, sessions: list[Recorded]) -> list[_Said]:
        """What was to be asked and was not recorded."""
        prompts = self._contract.prompts(invariant)
        if sessions and len(prompts) < 2:
            return []  # they were recorded for the invariant, so it is the one that they were asked
        recorded = {session.labels.prompt for session in sessions}
        missing = [prompt for prompt in prompts if prompt not in recorded]
        if missing:
            return [_Said(State.INCONCLUSIVE, f"no session was recorded for the prompt {show(missing[0])}")]
        return [] if sessions else [_Said(State.INCONCLUSIVE, "no session was recorded for it")]

    def _judge(self, invariant: Invariant, session: Recorded) -> _Said:
        """Return what one session says about the invariant."""
        verdict = self._verdicts[session.session_id]
        answer_id = _answer_id(session)
        about_answers = invariant.type in TYPES  # a rule kind may have something to say without an answer
        if session.answer is None and about_answers:
            return _Said(State.FAIL, "the agent gave no answer", session, answer_id)
        finding = verdict.found.get(self._compiled.completes)
        if finding is not None and (about_answers or finding.at == "event"):
            return _Said(State.FAIL, finding.detail, session, finding.event_id)
        if invariant.type == "behavior_unchanged" and (why := self._no_baseline(invariant, session)):
            return _Said(State.INCONCLUSIVE, why, session, answer_id)
        return self._hear(invariant, session, answer_id)

    def _hear(self, invariant: Invariant, session: Recorded, answer_id: str) -> _Said:
        """Return what the rules of the invariant say about an answer that came."""
        verdict, rules = self._verdicts[session.session_id], self._compiled.rules[invariant.id]
        place = session, answer_id
        found = None
        if verdict.found:
            found = next((verdict.found[rule] for rule in rules if rule in verdict.found), None)
        if found is None and not verdict.unjudged.isdisjoint(rules):
            return _Said(State.INCONCLUSIVE, "the recording leaves out what the invariant needs", *place)
        if invariant.id in self._compiled.inverted:
            if found is not None:
                return _Said(State.PASS, f"negated, and {found.detail}", *place)
            return _Said(State.FAIL, f"the answer keeps {invariant.type}, and the invariant is negated", *place)
        if found is not None:
            return _Said(State.FAIL, _why(invariant, found), session, found.event_id)
        return _Said(State.PASS, _held(invariant), *place)

    def _no_baseline(self, invariant: Invariant, session: Recorded) -> str:
        if invariant.baseline not in (None, "auto") or session.labels.prompt in self._baselines:
            return ""
        return "there is no baseline to compare with: no session of calm weather was recorded for this prompt"

    def _cell(self, invariant: Invariant, weather: Weather, state: State, said: _Said, sessions: int) -> Cell:
        session = said.session
        return Cell(
            invariant=invariant.id,
            scenario=weather.scenario.name,
            severity=invariant.severity,
            weight=invariant.weight,
            state=state,
            reason=_safe(said.reason),
            excerpt=self._excerpt(session, said.event_id, hide=state is State.FAIL and invariant.type in _PERSONAL),
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


def _held(invariant: Invariant) -> str:
    return f"{invariant.type} holds, negated" if invariant.negate else f"{invariant.type} holds"


@lru_cache(maxsize=1024)
def _safe(text: str) -> str:
    """Mask and cut a text; many cells say the same."""
    return printable(redact_text(text))
