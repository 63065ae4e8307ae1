"""What comes of a rule's answer: a finding, an objection to a call, labels, or a count of what could not be judged.

The id of a finding is the same in every replay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final, Literal, TypeAlias
from zlib import crc32

import msgspec
from msgspec.structs import replace

from stream_guard.judge.bound import Address, BoundRule
from stream_guard.judge.content import (
    FORGOTTEN,
    NO_ANSWER,
    NO_CLOCK,
    NO_RESPONSES,
    NOT_ALL_JUDGED,
    TAKEN_ALIKE,
    UNKNOWN_AGENT,
    UNREADABLE,
    is_unreadable,
)
from stream_guard.judge.counts import Counts
from stream_guard.judge.identity import attempt_identity, digest, event_identity
from stream_guard.judge.model import (
    ASKED,
    FAILED,
    HELD,
    HIT,
    MOST_TEXT,
    UNEVALUABLE,
    Action,
    Event,
    Finding,
    Hit,
    Json,
    Objection,
    Severity,
    ToolCall,
    Unsure,
)
from stream_guard.judge.ports import NO_ANSWERS, Answer, JudgeAnswers
from stream_guard.judge.session import RuleSlots, Session, Slot
from stream_guard.judge.spec import RuleSpec

# Ids of findings that belong to no rule, in the place of a rule's.
CONTESTED_CALL: Final = "stream_guard_contested_call"
LOOKALIKE: Final = "stream_guard_lookalike"  # about names in disguise
UNWRITABLE: Final = "stream_guard_unwritable_session"

_ABOVE: Final = 2 << 32  # above the tags of conditions, and above those that say that one is unknown

Findings: TypeAlias = list[Finding]
Objections: TypeAlias = list[Objection]
At: TypeAlias = Literal["event", "deadline", "end"]


class Evaluation:
    """What one showing needs and yields. Without an event, a deadline has passed or a scope has ended."""

    __slots__ = ("event", "findings", "key_state", "memory", "objections")

    def __init__(
        self,
        event: Event | None,
        key_state: Session,
        memory: Set[int],
        findings: Findings,
        objections: Objections | None = None,
    ) -> None:
        self.event = event
        self.key_state = key_state
        self.memory = memory  # of the event's session, which need not be the key
        self.findings = findings
        self.objections = objections  # None: nobody is asked about the event


class DerivedLabels:
    """The labels that the rules of a policy may set.

    A session keeps each as a number in its memory, among those of the conditions that held. So they are stored and
    restored with it, and there are never more than the policy names.
    """

    def __init__(self, rules: Sequence[RuleSpec]) -> None:
        labels = {label for spec in rules for label in spec.set_labels.items()}
        self._by_tag = {_tag(*label): label for label in sorted(labels)}
        self._names = frozenset(name for name, _ in labels)

    def __bool__(self) -> bool:
        return bool(self._names)

    def set(self, labels: Mapping[str, str], memory: set[int]) -> None:
        """Set labels from the next event on. A label has one value: the last."""
        memory -= {tag for tag, (name, _) in self._by_tag.items() if name in labels}
        memory |= {_tag(*label) for label in labels.items()}

    def beside(self, own: dict[str, str], memory: Set[int]) -> dict[str, str]:
        """Return the labels of an event with those of its session.

        A name that rules set is theirs alone: a source cannot set it, nor take it away.
        """
        derived = dict(label for tag, label in self._by_tag.items() if tag in memory)
        if not derived and self._names.isdisjoint(own):
            return own
        return {name: value for name, value in own.items() if name not in self._names} | derived

    def onto(self, event: Event, memory: Set[int]) -> Event:
        """Return the event with the labels of its session: a copy, as the session knows events by their content."""
        labels = self.beside(event.labels, memory)
        return event if labels is event.labels else replace(event, labels=labels)


def _tag(name: str, value: str) -> int:
    return _ABOVE + crc32(msgspec.json.encode((name, value)))


def is_answered(answer: Answer | None) -> bool:
    """Whether an answer says yes or no; "I cannot tell" is no answer."""
    return answer is not None and answer.violated is not None


def judged_finding(finding: Finding, answer: Answer | None) -> Finding | None:
    """Return the finding as it stands after an answer, None where nothing is left of it.

    It depends on its arguments alone: whoever applies the same answer, now or in a replay, gets the same finding.
    """
    inquiry = finding.inquiry
    if inquiry is None:
        return finding
    if answer is None or answer.violated is None:
        if not inquiry.tells_unanswered:
            return None
        detail, said = f"no judge has said whether this keeps the rule: {finding.detail}", {"says": "no answer"}
        return _with(finding, detail, said)
    if not answer.violated:
        return None
    told = {"says": "broken", "confidence": answer.confidence, "why": answer.explanation, "inquiry": answer.id}
    return _with(finding, f"a judge says that this breaks the rule: {finding.detail}", told)


def _with(finding: Finding, detail: str, said: dict[str, Json]) -> Finding:
    return replace(finding, inquiry=None, detail=detail, evidence={**finding.evidence, "judge": said})


def make_finding(
    bound: BoundRule,
    hit: Hit,
    event: Event | None,
    key_state: Session,
    address: Address,
    at: At,
    time: float | None,
    suppressed: int,
) -> Finding:
    """Return the finding of a hit. Without an event it refers to the last event of the key."""
    spec = bound.spec
    about = event if event is not None else key_state.make_end("closed", time)
    index = hit.index if hit.index is not None else event.index if event is not None else None
    key = _key_values(bound, address, key_state)
    return Finding(
        alert_id=digest(spec.slot, *_whose(bound, event, key_state), *_subject(event, key_state, at, time), *key),
        rule_id=spec.id,
        slot=spec.slot,
        kind=spec.kind,
        severity=spec.severity,
        session_id=about.session_id,
        event_id=about.event_id,
        index=None if index is None or index < 0 else index,
        time=time,
        detail=hit.detail,
        evidence=hit.evidence,
        part="/".join(key),
        at=at,
        then=spec.then,
        reason=spec.reason,
        shadow=spec.shadow,
        tags=spec.tags,
        run_id=about.run_id,
        agent=about.agent,
        labels=about.labels,
        suppressed=suppressed,
        attempt=event.attempt if isinstance(event, ToolCall) else -1,
        followup=hit.followup,
        inquiry=hit.inquiry,
    )


def error_finding(bound: BoundRule, error: Exception, event: Event | None, key_state: Session) -> Finding:
    """Return the finding that a rule raised an exception. Its id is the same at every event: one alert per rule."""
    spec = bound.spec
    about = event or key_state.make_end("closed", key_state.time)
    return Finding(
        alert_id=digest(spec.slot, f"{bound.tag:08x}", "", "", "rule_error"),
        rule_id=spec.id,
        slot=spec.slot,
        kind="rule_error",
        severity=Severity.ERROR,
        session_id=about.session_id,
        event_id=about.event_id,
        index=None,
        time=about.time,
        detail=f"the rule raised {type(error).__name__} and skipped this event; further ones are only counted",
        evidence={"error": str(error)[:200], "kind": spec.kind},
        tags=spec.tags,
    )


def lookalike_finding(call: ToolCall, judged: str) -> Finding:
    """Return the finding that a tool's name imitates another one. It belongs to no rule and stops nothing by itself."""
    detail = f"a tool's name only looks like {judged}; it was judged as {judged}"
    evidence: dict[str, Json] = {
        "written": call.tool[:200].encode("ascii", "backslashreplace").decode(),
        "judged_as": judged,
    }
    finding = _finding_about(call, LOOKALIKE, call.session_id, detail, evidence)
    return replace(finding, kind="lookalike", severity=Severity.WARNING)


def contested_finding(call: ToolCall, key_state: Session, then: Action | None, why: str) -> Finding:
    """Return the finding that common readers differ on the arguments of a call; it is of no rule."""
    detail = f"what a call of {call.tool[:100] or 'some tool'} asks for is not certain: {why}"[:300]
    return replace(_finding_about(call, CONTESTED_CALL, key_state.id, detail, {"tool": call.tool}), then=then)


def _finding_about(call: ToolCall, name: str, owner: str, detail: str, evidence: dict[str, Json]) -> Finding:
    """Return a finding about a call that belongs to no rule; ``owner`` is the session or the value of a key."""
    return Finding(
        alert_id=digest(name, owner, "attempt", attempt_identity(call)),
        rule_id=name,
        slot=name,
        kind=name,
        severity=Severity.ERROR,
        session_id=call.session_id,
        event_id=call.event_id,
        index=None if call.index < 0 else call.index,
        time=call.time,
        detail=detail,
        evidence=evidence,
        run_id=call.run_id,
        agent=call.agent,
        labels=call.labels,
        attempt=call.attempt,
    )


def unwritable_finding(session: Session, why: str) -> Finding:
    """Return the finding that a session was closed because no row can hold it. It belongs to no rule."""
    end = session.make_end("closed", session.time)
    return Finding(
        alert_id=digest(UNWRITABLE, session.id, "", end.event_id, "end"),
        rule_id=UNWRITABLE,
        slot=UNWRITABLE,
        kind=UNWRITABLE,
        severity=Severity.ERROR,
        session_id=end.session_id,
        event_id=end.event_id,
        index=None,
        time=end.time,
        detail=f"the session was closed because it cannot be stored: {why}",
        at="end",
        run_id=end.run_id,
        agent=end.agent,
    )


def _whose(bound: BoundRule, event: Event | None, key_state: Session) -> tuple[str, str]:
    """Return the value of the key that a finding is of, and of a key that spans sessions whose event it is about."""
    if "session" in bound.spec.key:
        return key_state.id, ""
    return key_state.id, event.session_id if event is not None else ""


def _subject(event: Event | None, key_state: Session, at: At, time: float | None) -> tuple[str, ...]:
    """Return what a finding is about: an attempt, another event, a deadline, or the end of a session or of a part."""
    if type(event) is ToolCall:
        return "attempt", event.session_id, attempt_identity(event)
    if event is not None:
        return "event", *event_identity(event)
    if at == "deadline":
        return at, str(float(time or 0.0))
    return at, key_state.end_of_what


def _key_values(bound: BoundRule, address: Address, key_state: Session) -> list[str]:
    """Return which of the rule's states the finding is from: the session part, and the run or the values of the key."""
    part = [str(key_state.part)] if bound.part_scoped else []
    if isinstance(address, tuple):
        return part + [str(value) for value in address[1:]]
    return part or ([] if "session" in bound.spec.key else [key_state.id.rpartition("\x00")[2]])


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
        hit: Hit,
        evaluation: Evaluation,
        address: Address,
        *,
        at: At = "event",
        time: float | None = None,
    ) -> None:
        """Add the finding of a hit, unless the rule's cooldown holds it back."""
        key_state, event = evaluation.key_state, evaluation.event
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
                self._hold_back(bound, hit, evaluation, address, at, time)
                return
            suppressed, slot.last, slot.suppressed = slot.suppressed, time, 0
        finding = make_finding(bound, hit, event, key_state, address, at, time, suppressed)
        if event is None and self._derived and "session" in bound.spec.key:
            finding = replace(finding, labels=self._derived.beside(finding.labels, key_state.memory))
        if hit.inquiry is not None:
            self._consult(bound, finding, evaluation)
            return
        self._counts.findings[bound.number] += 1
        self._object_to_hit(bound, hit, evaluation, HIT)
        evaluation.findings.append(finding)

    def _hold_back(
        self, bound: BoundRule, hit: Hit, evaluation: Evaluation, address: Address, at: At, time: float | None
    ) -> None:
        """Keep a finding back. A gate is told of it all the same, and a judge asked where an attempt waits for that."""
        self._counts.suppressed += 1
        if hit.inquiry is None:
            self._object_to_hit(bound, hit, evaluation, HELD)
        elif bound.spec.stops:
            held = make_finding(bound, hit, evaluation.event, evaluation.key_state, address, at, time, 0)
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

    def held(self, bound: BoundRule, hit: Hit | None, evaluation: Evaluation, slot: Slot, is_lost: bool) -> bool:
        """Whether the rule has hit without a break for as long as its `for` asks; without a clock nobody can tell.

        ``is_lost``: since when it hits may have been forgotten, so it is not known that this was not long enough.
        """
        event = evaluation.event
        if hit is None:
            slot.since = None
            return False
        if event is None or event.time is None:
            self.count_unevaluable(bound, evaluation, NO_CLOCK)
            return False
        if slot.since is None:
            slot.since = event.time
        if event.time - slot.since >= (bound.spec.hold or 0.0):
            return True
        if is_lost:
            self.count_unevaluable(bound, evaluation, FORGOTTEN)
        return False

    def count_unevaluable(
        self, bound: BoundRule, evaluation: Evaluation, lacks: str, *, about_event: bool = True
    ) -> None:
        """Count a judgement that could not be made; it may be about no event in particular."""
        if lacks == UNKNOWN_AGENT and not (about_event and type(evaluation.event) is ToolCall):
            return
        self._counts.unevaluable[bound.number] += 1
        self._counts.lacking[bound.lacking(lacks)] += 1
        # Any agent can write what nobody can read, take another name, or flood a memory: what it owes, it owes.
        if lacks not in (UNREADABLE, UNKNOWN_AGENT, FORGOTTEN, TAKEN_ALIKE, NO_RESPONSES, NOT_ALL_JUDGED):
            key_state = evaluation.key_state
            if bound.number not in key_state.unevaluable:
                key_state.unevaluable |= {bound.number}
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
