"""What comes of a rule's answer: a finding, an objection to a call, or a count of what could not be judged."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stream_guard.judge.bound import BoundRule
from stream_guard.judge.counts import Counts
from stream_guard.judge.derived_labels import DerivedLabels
from stream_guard.judge.evaluation import Evaluation
from stream_guard.judge.findings import (
    At,
    Moment,
    contested_finding,
    error_finding,
    is_answered,
    judged_finding,
    make_finding,
)
from stream_guard.judge.gaps import (
    FORGOTTEN,
    NO_ANSWER,
    NO_CLOCK,
    TAKEN_ALIKE,
    UNKNOWN_AGENT,
    UNREADABLE,
    is_unreadable,
)
from stream_guard.judge.key_state import Address, Slot
from stream_guard.judge.model import Action, Finding, Hit, Settled, ToolCall, Unsure
from stream_guard.judge.objections import ASKED, FAILED, HELD, HIT, MOST_TEXT, UNEVALUABLE, Objection
from stream_guard.judge.ports import NO_ANSWERS, Answer, JudgeAnswers
from stream_guard.judge.states import RuleSlots


class Reporter:
    """Writes answers of rules into the evaluation that they belong to, and counts them."""

    def __init__(
        self,
        counts: Counts,
        derived: DerivedLabels,
        rules: int,
        slots: RuleSlots,
        answers: JudgeAnswers = NO_ANSWERS,
    ) -> None:
        self._counts = counts
        self._slots = slots
        self._answers = answers
        self._derived = derived
        self._failed: set[int] = set()
        self._most_objections = 4 * rules + 4

    def report(
        self,
        bound: BoundRule,
        hit: Hit | Unsure | Settled,
        evaluation: Evaluation,
        address: Address,
        *,
        at: At = "event",
        time: float | None = None,
    ) -> None:
        """Add the finding of a hit, unless the rule's cooldown holds it back."""
        key_state, event = evaluation.key_state, evaluation.event
        # By the exact type first: to tell that a struct is no instance of a class takes longer.
        if type(hit) is Unsure or (type(hit) is not Settled and isinstance(hit, Unsure)):
            self.count_unsure(bound, hit, evaluation)
            return
        if type(hit) is Settled or isinstance(hit, Settled):
            key_state.asleep |= bound.bit
            return
        if hit.inquiry is None:
            self._counts.hits[bound.number] += 1
        if bound.spec.set_labels:
            self._derived.set(bound.spec.set_labels, key_state.memory)
        time = event.time if event is not None else time
        suppressed = 0
        if bound.spec.cooldown is not None and time is not None:
            slot = self._slots.get(bound, address, key_state)
            # As far back too: a stamp from the future must not hold back what comes now.
            if slot.last is not None and abs(time - slot.last) < bound.spec.cooldown:
                slot.suppressed += 1
                self._hold_back(bound, hit, evaluation, address, Moment(at, time))
                return
            suppressed, slot.last, slot.suppressed = slot.suppressed, time, 0
        finding = make_finding(bound, hit, event, key_state, address, Moment(at, time), suppressed)
        if event is None and self._derived and "session" in bound.spec.key:
            finding = replace(finding, labels=self._derived.beside(finding.labels, key_state.memory))
        if hit.inquiry is not None:
            self._consult(bound, finding, evaluation)
            return
        self._counts.findings[bound.number] += 1
        self._object_to_hit(bound, hit, evaluation, HIT)
        evaluation.findings.append(finding)

    def _hold_back(self, bound: BoundRule, hit: Hit, evaluation: Evaluation, address: Address, moment: Moment) -> None:
        """Keep a finding back. A gate is told of it all the same, and a judge asked where an attempt waits for that."""
        self._counts.suppressed += 1
        if hit.inquiry is None:
            self._object_to_hit(bound, hit, evaluation, HELD)
        elif bound.spec.stops:
            held = make_finding(bound, hit, evaluation.event, evaluation.key_state, address, moment, 0)
            self._consult(bound, replace(held, shadow=True), evaluation)

    def _object_to_hit(self, bound: BoundRule, hit: Hit, evaluation: Evaluation, cause: str) -> None:
        if not hit.followup:
            self._object(evaluation, bound, cause, _objection(bound, hit))

    def _consult(self, bound: BoundRule, finding: Finding, evaluation: Evaluation) -> None:
        """Let the judge's answer decide on a finding; without one, it is left for whoever asks.

        Nothing of this is remembered: the states are the same whether a judge has answered or will.
        """
        inquiry = finding.inquiry
        assert inquiry is not None  # noqa: S101  # the caller's promise
        self._object(evaluation, bound, ASKED, inquiry.digest)
        answer = self._answers.find(inquiry.digest)
        if not is_answered(answer) and self._answers.asks:
            evaluation.findings.append(finding)
        elif (found := self.settle(bound, finding, answer)) is not None:
            evaluation.findings.append(found)

    def settle(self, bound: BoundRule, finding: Finding, answer: Answer | None) -> Finding | None:
        """Return what an answer makes of a finding, and count it; one that a cooldown held back is counted no more."""
        found = judged_finding(finding, answer)
        if not is_answered(answer):
            self._counts.unevaluable[bound.number] += 1
            self._counts.lacking[bound.lacking(NO_ANSWER)] += 1
        elif found is not None:
            self._counts.hits[bound.number] += 1
        if finding.shadow and not bound.spec.shadow:
            return None
        if found is not None:
            self._counts.findings[bound.number] += 1
        return found

    def fail(self, bound: BoundRule, error: Exception, evaluation: Evaluation) -> None:
        """Count an exception of a rule, and report the first one of each rule."""
        self._counts.rule_errors[bound.number] += 1
        self._object(evaluation, bound, FAILED, "")
        if bound.number not in self._failed:
            self._failed.add(bound.number)
            evaluation.findings.append(error_finding(bound, error, evaluation.event, evaluation.key_state))

    def held(self, bound: BoundRule, hit: Hit | None, evaluation: Evaluation, slot: Slot) -> bool:
        """Whether the rule has hit without a break for as long as its `for` asks; without a clock nobody can tell."""
        event = evaluation.event
        if hit is None:
            slot.since = None
            return False
        if event is None or event.time is None:
            self.count_unevaluable(bound, evaluation, NO_CLOCK)
            return False
        if slot.since is None:
            slot.since = event.time
        return event.time - slot.since >= (bound.spec.hold or 0.0)

    def count_unevaluable(
        self, bound: BoundRule, evaluation: Evaluation, lacks: str, *, about_event: bool = True
    ) -> None:
        """Count a judgement that could not be made; it may be about no event in particular."""
        if lacks == UNKNOWN_AGENT and not (about_event and type(evaluation.event) is ToolCall):
            return
        self._counts.unevaluable[bound.number] += 1
        self._counts.lacking[bound.lacking(lacks)] += 1
        # Any agent can write what nobody can read, take another name, or flood a memory: what it owes, it owes.
        if lacks not in (UNREADABLE, UNKNOWN_AGENT, FORGOTTEN, TAKEN_ALIKE):
            evaluation.key_state.unevaluable.add(bound.number)
        if about_event:
            self._object(evaluation, bound, UNEVALUABLE, lacks)

    def contest(self, rules: Sequence[BoundRule], call: ToolCall, evaluation: Evaluation) -> None:
        """Add the finding that executors differ on what these rules, which stop, ask about a call."""
        self._counts.contested_calls += 1
        for bound in rules:
            self.count_unevaluable(bound, evaluation, TAKEN_ALIKE)
        then = max((min(bound.spec.then, Action.BLOCK) for bound in rules if bound.spec.then is not None), default=None)
        why = f"executors differ on what {', '.join(bound.spec.id for bound in rules[:3])} asks about"
        evaluation.findings.append(contested_finding(call, evaluation.key_state, then, why))

    def count_unsure(self, bound: BoundRule, unsure: Unsure, evaluation: Evaluation) -> None:
        """Count the answer of a rule that could not judge everything."""
        if unsure.why == "type_mismatch":
            self._counts.type_mismatches += 1
            return
        event = evaluation.event
        lacks = UNREADABLE if event is not None and is_unreadable(event) else unsure.lacks
        self.count_unevaluable(bound, evaluation, lacks, about_event=not unsure.followup)

    def _object(self, evaluation: Evaluation, bound: BoundRule, cause: str, text: str) -> None:
        """Note what a rule has against a tool call that somebody may ask about."""
        objections = evaluation.objections
        if objections is not None and len(objections) < self._most_objections:
            objections.append(Objection(bound.number, cause, text[:MOST_TEXT]))


def _objection(bound: BoundRule, hit: Hit) -> str:
    """Return what a hit has against a call: what was found, and what would satisfy the rule. It may hold a secret."""
    return f"{hit.detail}; to pass: {hit.advice}" if bound.spec.stops and hit.advice else hit.detail
