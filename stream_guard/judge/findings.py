"""Turn a hit into a finding: add the rule, the session, the place, and an id that is the same in every replay."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from stream_guard.judge.bound import BoundRule
from stream_guard.judge.identity import attempt_identity, digest, event_identity
from stream_guard.judge.key_state import Address, KeyState
from stream_guard.judge.model import Action, Event, Finding, Hit, Json, Severity, ToolCall
from stream_guard.judge.ports import Answer


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


CONTESTED_CALL: Final = "stream_guard_contested_call"

UNWRITABLE: Final = "stream_guard_unwritable_session"

LOOKALIKE: Final = "stream_guard_lookalike"
"""The id of findings about names in disguise, in the place of a rule's."""

At: TypeAlias = Literal["event", "deadline", "end"]


class Moment(NamedTuple):
    """What triggered a finding: an event, a deadline or the end, and its event time."""

    at: At
    time: float | None


def make_finding(
    bound: BoundRule,
    hit: Hit,
    event: Event | None,
    key_state: KeyState,
    address: Address,
    moment: Moment,
    suppressed: int,
) -> Finding:
    """Return the finding of a hit. Without an event it refers to the last event of the key."""
    spec = bound.spec
    about = event if event is not None else key_state.make_end("closed", moment.time)
    index = hit.index if hit.index is not None else event.index if event is not None else None
    key = _key_values(bound, address, key_state)
    return Finding(
        alert_id=digest(spec.slot, *_whose(bound, event, key_state), *_subject(event, key_state, moment), *key),
        rule_id=spec.id,
        slot=spec.slot,
        kind=spec.kind,
        severity=spec.severity,
        session_id=about.session_id,
        event_id=about.event_id,
        index=None if index is None or index < 0 else index,
        time=moment.time,
        detail=hit.detail,
        evidence=hit.evidence,
        part="/".join(key),
        at=moment.at,
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


def error_finding(bound: BoundRule, error: Exception, event: Event | None, key_state: KeyState) -> Finding:
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
    return Finding(
        alert_id=digest(LOOKALIKE, call.session_id, "attempt", attempt_identity(call)),
        rule_id=LOOKALIKE,
        slot=LOOKALIKE,
        kind="lookalike",
        severity=Severity.WARNING,
        session_id=call.session_id,
        event_id=call.event_id,
        index=call.index if call.index >= 0 else None,
        time=call.time,
        detail=f"a tool's name only looks like {judged}; it was judged as {judged}",
        evidence={"written": call.tool[:200].encode("ascii", "backslashreplace").decode(), "judged_as": judged},
        run_id=call.run_id,
        agent=call.agent,
        labels=call.labels,
        attempt=call.attempt,
    )


def contested_finding(call: ToolCall, key_state: KeyState, then: Action | None, why: str) -> Finding:
    """Return the finding that common readers differ on the arguments of a call; it is of no rule."""
    return Finding(
        alert_id=digest(CONTESTED_CALL, key_state.id, "attempt", attempt_identity(call)),
        rule_id=CONTESTED_CALL,
        slot=CONTESTED_CALL,
        kind=CONTESTED_CALL,
        severity=Severity.ERROR,
        session_id=call.session_id,
        event_id=call.event_id,
        index=None if call.index < 0 else call.index,
        time=call.time,
        detail=f"what a call of {call.tool[:100] or 'some tool'} asks for is not certain: {why}"[:300],
        evidence={"tool": call.tool},
        then=then,
        run_id=call.run_id,
        agent=call.agent,
        labels=call.labels,
        attempt=call.attempt,
    )


def unwritable_finding(session: KeyState, why: str) -> Finding:
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


def _whose(bound: BoundRule, event: Event | None, key_state: KeyState) -> tuple[str, str]:
    """Return the value of the key that a finding is of, and of a key that spans sessions whose event it is about."""
    if "session" in bound.spec.key:
        return key_state.id, ""
    return key_state.id, event.session_id if event is not None else ""


def _subject(event: Event | None, key_state: KeyState, moment: Moment) -> tuple[str, ...]:
    """Return what a finding is about: an attempt, another event, a deadline, or the end of a session or of a part."""
    if type(event) is ToolCall:
        return "attempt", event.session_id, attempt_identity(event)
    if event is not None:
        return "event", *event_identity(event)
    if moment.at == "deadline":
        return moment.at, str(float(moment.time or 0.0))
    return moment.at, key_state.end_of_what


def _key_values(bound: BoundRule, address: Address, key_state: KeyState) -> list[str]:
    """Return which of the rule's states the finding is from: the session part, the run or the values of the key."""
    if isinstance(address, tuple):
        return [str(value) for value in address[1:]]
    if bound.part_scoped:
        return [str(key_state.part)]
    return [] if "session" in bound.spec.key else [key_state.id.rpartition("\x00")[2]]
