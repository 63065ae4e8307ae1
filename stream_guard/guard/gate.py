"""The gate: a guard with reviews, incidents and an audit.

The guard decides. The gate carries the decision out: it opens reviews and applies their answers, keeps ended sessions
ended, records every match, and gives the same attempt the same answer when it is asked about again. A ruling is a
decision as it is to be carried out.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

import msgspec

from stream_guard.alerting.delivery import alerts_of
from stream_guard.commit import Commit, UnreadableRecord
from stream_guard.decoding.dead_letters import DeadLetters
from stream_guard.errors import StoreError
from stream_guard.guard.clocks import ReceiverClock
from stream_guard.guard.decisions import decision_event
from stream_guard.guard.follow_up import record_findings, review_notice
from stream_guard.guard.inline import Guard
from stream_guard.guard.reviews import Review, Reviews, call_key
from stream_guard.guard.untold import UntoldAlert
from stream_guard.history import chain
from stream_guard.history.chain import RULINGS, SEAL, is_sealed, seal_of
from stream_guard.history.database import Database, Statements
from stream_guard.history.records import digest_of, from_text, to_text
from stream_guard.judge.arguments import read_attempt
from stream_guard.judge.judge import Judge
from stream_guard.judge.limits import FRESH
from stream_guard.judge.model import (
    Action,
    Alert,
    Decision,
    Event,
    Finding,
    RuleCoverage,
    ToolCall,
    ToolResult,
    resolved,
)
from stream_guard.judge.ports import Answer, Store
from stream_guard.judge.spec import Policy
from stream_guard.redaction import mask_id, mask_secrets

_logger = logging.getLogger(__name__)

PROBE: Final = "stream_guard_probe"  # a tool that is always blocked: a caller that may run it has no gate

# What a settled review makes of the attempt that waited for it.
_ANSWERS: Final = {"used": Action.ALLOW, "rejected": Action.BLOCK}


class Ruling(Decision, frozen=True, kw_only=True):
    """A decision as the gate carries it out: with alerts in place of findings, and the review that it hangs on."""

    alerts: tuple[Alert, ...] = ()
    review: Review | None = None


class Rewriting(NamedTuple):
    """The rules that changed a call, and the digest of the arguments that it came with."""

    rules: tuple[str, ...]
    asked_digest: str


@resolved
class _Remembered(msgspec.Struct, frozen=True):
    """A ruling that is not a plain allow, as it is stored."""

    action: Action
    reason: str
    rule_ids: tuple[str, ...]
    checked: bool = True
    rules: RuleCoverage = RuleCoverage()
    record: int = 0  # of an allow: the number of the audit record that seals this row
    advice: str = ""
    at: float = 0.0  # of an allow: when it was given
    asked: tuple[str, ...] = ()  # digests of what a judge had not answered


Outgoing: TypeAlias = Callable[[Sequence[Alert]], "Future[None] | None"]
"""Has alerts on disk for sinks outside, and may return what is done when every other sink has them, too."""

_Judged: TypeAlias = tuple[Ruling, ToolCall]
"""The ruling on an attempt, and the attempt under the id and the time that it was judged under."""


class Gate:
    """Decides on attempts and carries out what follows. Safe to call from many threads.

    ``emit`` gets every event as it happens: attempts, decisions and results, each with the time at which it came.
    Written to a topic, they let the follow-up path judge what the gate judged. An alert is stored with the states that
    made it, and told afterwards: a crash, or a history that cannot be written, repeats it, with the same id.
    """

    def __init__(
        self,
        policy: Policy,
        database: Database,
        *,
        guard: Guard | None = None,
        reviews: Reviews | None = None,
        emit: Callable[[Event], None] | None = None,
        outgoing: Outgoing | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        clock = clock or ReceiverClock()
        self.policy = policy
        self.guard = guard or Guard(policy, clock=clock)
        self.database = database
        self.reviews = reviews or Reviews(database, clock=clock)
        self.decisions: Counter[Action] = Counter()
        self.outgoing = outgoing or (lambda _: None)
        self.reviews.notify = self._notify
        self._emit = emit or (lambda _: None)
        self._clock = clock
        self._untold = self.guard.hand_over_alerts()
        self._commit = Commit(self._tell_left)
        # One attempt at a time: its stored ruling must not change while it is judged.
        self._lock = Lock()

    def check(self, attempt: ToolCall, *, may_modify: bool = False) -> Ruling:
        """Decide on a tool call before it runs.

        The same question (the same ids, tool and arguments, under the same policy) gets the same answer: a refusal
        until a result is observed, a yes only for a moment, under its event id. Meanwhile its review may have been
        answered, or its session ended.

        With ``may_modify`` the answer may be ``modify``: the caller promises to run the tool with ``ruling.args``.
        They are what was judged, and what is remembered and recorded.
        """
        if attempt.tool == PROBE:
            return Ruling(action=Action.BLOCK, reason="the gate is there: a probe is always blocked")
        with self._lock:
            changed, rules = self.guard.rewrite(attempt) if may_modify else (attempt, ())
            if rules:
                ruling = self._rule(changed, Rewriting(rules, digest_of(read_attempt(attempt).args)))
            else:
                ruling = self._rule(attempt)
            if rules and ruling.action is Action.ALLOW:
                ruling = msgspec.structs.replace(ruling, action=Action.MODIFY, args=changed.args, modified_by=rules)
            self.decisions[ruling.action] += 1
            return ruling

    def keep_letters(self, letters: DeadLetters) -> None:
        """Keep the dead letters that come along with events."""
        self._commit = Commit(self._tell_left, letters)

    def observe(
        self,
        *events: Event,
        progress: Callable[[Store], None] | None = None,
        letters: Sequence[UnreadableRecord] = (),
    ) -> list[Alert]:
        """Fold events that have happened, and store them together; with ``progress``, which puts rows of the caller's.

        Findings become incidents and non-blocking ``anomaly_alert``s. Returns those of the sessions of the events,
        also what an earlier try could not tell.
        """
        with self._lock:
            for event in events:
                if isinstance(event, ToolResult) and event.call_id:
                    self._forget(event)
            sessions = {event.session_id for event in events}
            left = [one.alert for one in self._untold.waiting()]
            told = self._fold(lambda: self.guard.receive(events, progress), letters)
            return [alert for alert in (*left, *told) if alert.session_id in sessions]

    def tell_left(self) -> None:
        """Tell what this gate, or another one, made and could not tell."""
        with self._lock:
            self._tell()

    def _fold(self, receive: Callable[[], Sequence[Event]], letters: Sequence[UnreadableRecord] = ()) -> list[Alert]:
        """Fold events, and tell what they are found to be."""

        def tell(recorded: Sequence[Event]) -> list[Alert]:
            for event in recorded:
                self._emit(event)
            return self._tell()

        return self._commit.run((), lambda _: receive(), tell, letters)

    def _tell_left(self, _judged: tuple[()]) -> Mapping[str, int]:
        self._untold.look_around()
        self._tell()
        return {}

    def _tell(self) -> list[Alert]:
        """Tell every alert that is not told yet."""
        if not self._untold:
            return []
        waiting = self._untold.waiting()
        with self._telling():
            return [one.alert for one in waiting]

    @contextmanager
    def _telling(self, *, durable: bool = False) -> Iterator[Statements]:
        """Open a transaction in which everything that is not told yet is sent out and written down.

        It is grouped into incidents; a new incident of a follow-up opens an alert for a person.
        """
        waiting, now = self._untold.waiting(), self._clock()
        with self.database.transaction(durable=durable) as statements:
            sent = self.outgoing([one.alert for one in waiting]) if waiting else None
            for is_followup, reviews in ((False, None), (True, self.reviews)):
                alerts = [one.alert for one in waiting if one.is_followup is is_followup]
                record_findings(statements, alerts, now, reviews)
            yield statements
        self._untold.note_recorded(waiting)
        if waiting and sent is None:
            self._forget_told(waiting)
        elif sent is not None:
            sent.add_done_callback(lambda done: None if done.exception() else self._forget_told(waiting))

    def _forget_told(self, told: Sequence[UntoldAlert]) -> None:
        self._untold.note_told(told)
        with suppress(StoreError):  # else their rows go with a later commit
            self.guard.forget_told()

    def tell(self, answered: Sequence[tuple[Finding, Answer | None]]) -> None:
        """Follow up what waited for a judge, now that there is an answer, or none will come."""
        found = [found for finding, answer in answered if (found := self.guard.settle(finding, answer)) is not None]
        with self._lock:
            self._untold.hold(alerts_of(found, self.policy.version))
            self._tell()

    def action_of(self, alerts: Sequence[Alert]) -> Action:
        """Return the strictest action of the rules that found something, for a caller that may still hold it up."""
        if not alerts:
            return Action.ALLOW
        thens = {spec.id: spec.then for spec in self.policy.rules if not spec.shadow}
        return max(thens.get(alert.rule_id) or Action.ALLOW for alert in alerts)

    def open_obligations(self, session_id: str) -> list[Alert]:
        """Return what rules would find if the session ended now; nothing once a rule has ended it."""
        with self._lock:
            if self._ended(session_id) is not None:
                return []
            return alerts_of(self.guard.open_obligations(session_id), self.policy.version)

    def use(self, judge: Judge) -> None:
        """Decide by another policy, which the guard has compiled, from the next attempt on.

        Answers and approvals are bound to the policy under which they were given. Ended sessions stay ended.
        """
        with self._lock:
            self.guard.use(judge)
            self.policy = judge.policy

    def record_unjudged(self, attempt: ToolCall, ruling: Ruling) -> None:
        """Record an answer that was given without judgement; StoreError when the history cannot be written."""
        with self.database.transaction() as statements:
            record = {**_decision_record(attempt, ruling), "judged": False}
            chain.append(statements, "decision", self._clock(), record)

    def _rule(self, attempt: ToolCall, rewriting: Rewriting | None = None) -> Ruling:
        told, attempt = attempt, read_attempt(attempt)
        key = self._key(attempt)
        ended = self._ended(attempt.session_id)
        known = self._remembered(key, attempt) if ended is None else None
        if known is not None and known.asked and self.guard.knows_more(known.asked):
            self._reopen(attempt, key)
            known = None
        if known is not None:
            return self._repeat(msgspec.structs.replace(attempt, time=self._clock()), key, known, rewriting)
        return self._commit.run(
            (),
            lambda _: self._judge(told, attempt),
            lambda judged: self._answer(key, ended, *judged, rewriting),
        )

    def _judge(self, told: ToolCall, attempt: ToolCall) -> _Judged:
        decision, judged = self.guard.judge(attempt)
        # The arguments as they came: whoever reads them reads them again. The id only where it is the caller's.
        event_id = "" if _is_derived(judged.event_id) else judged.event_id
        self._emit(msgspec.structs.replace(told, event_id=event_id, time=judged.time, asked=True))
        ruling = Ruling(
            action=decision.action,
            reason=decision.reason,
            policy_version=self.policy.version,
            alerts=tuple(alerts_of(decision.findings, self.policy.version)),
            checked=decision.checked,
            rule_ids=decision.rule_ids,
            rules=decision.rules,
            advice=decision.advice,
            asked=decision.asked,
        )
        return ruling, msgspec.structs.replace(attempt, event_id=judged.event_id, time=judged.time)

    def _answer(
        self, key: str, ended: _Remembered | None, ruling: Ruling, attempt: ToolCall, rewriting: Rewriting | None
    ) -> Ruling:
        """Carry out what was judged, and tell of it."""
        if ended is not None:
            reason = f"the session was ended: {ended.reason}"
            ruling = msgspec.structs.replace(ruling, action=Action.TERMINATE_SESSION, reason=reason)
        # Every answer but the plain one, an allow that all rules agree to, is in the audit.
        if ruling.action is not Action.ALLOW or ruling.rule_ids or not ruling.judged or rewriting is not None:
            ruling = self._carry_out(attempt, key, ruling, rewriting)
        else:
            self._tell()
        self._publish(attempt, ruling, guard_knows=ruling.review is None or ruling.action is Action.PAUSE)
        return ruling

    def _reopen(self, attempt: ToolCall, key: str) -> None:
        """Forget an answer that was given before a judge's: the attempt is judged anew, with what the judge said."""
        with self.database.transaction() as statements:
            statements.run("DELETE FROM sg_rulings WHERE attempt = ?", key)
            self.reviews.withdraw(statements, attempt, self.policy.version)

    def _carry_out(self, attempt: ToolCall, key: str, ruling: Ruling, rewriting: Rewriting | None) -> Ruling:
        """Record a decision and carry it out, in one transaction."""
        # An approval that is used up here, or a session that ends, stays so after a power failure.
        final = ruling.action in (Action.PAUSE, Action.TERMINATE_SESSION)
        with self._telling(durable=final) as statements:
            remembered = _Remembered(
                ruling.action,
                ruling.reason,
                ruling.rule_ids,
                ruling.checked,
                ruling.rules,
                advice=ruling.advice,
                asked=ruling.asked,
            )
            if ruling.action is Action.PAUSE:
                ruling = self._ask(statements, attempt, remembered, ruling)
            number = chain.head_of(statements).number + 1
            if ruling.action is Action.TERMINATE_SESSION:
                # The reason stays the first one; each further attempt has the end last longer.
                statements.run(
                    "INSERT INTO sg_ended VALUES (?, ?, ?, ?) ON CONFLICT (session) DO UPDATE "
                    "SET record = excluded.record, noted = excluded.noted",
                    digest_of(attempt.session_id),
                    to_text(remembered),
                    number,
                    statements.time(),
                )
            if key and remembered.action is not Action.ALLOW:
                statements.run(
                    "INSERT INTO sg_rulings VALUES (?, ?, ?, ?) ON CONFLICT (attempt) DO NOTHING",
                    key,
                    call_key(attempt),
                    to_text(remembered),
                    number,
                )
            record = _decision_record(attempt, ruling, rewriting)
            chain.append(statements, "decision", self._clock(), record)
        return ruling

    def _repeat(self, attempt: ToolCall, key: str, known: _Remembered, rewriting: Rewriting | None) -> Ruling:
        """Answer an attempt that was answered before."""
        ruling = Ruling(
            action=known.action,
            reason=known.reason,
            policy_version=self.policy.version,
            checked=known.checked,
            rule_ids=known.rule_ids,
            rules=known.rules,
            advice=known.advice,
        )
        if known.action is not Action.PAUSE:
            if known.action is Action.ALLOW:
                record = _decision_record(attempt, ruling, rewriting)
                with self.database.transaction() as statements:
                    chain.append(statements, "decision", self._clock(), record)
                # Whoever recorded this yes may have been killed before the rules knew of it.
                self._publish(attempt, ruling, guard_knows=False)
            return ruling
        with self.database.transaction(durable=True) as statements:
            answered = self._ask(statements, attempt, known, ruling)
            if answered.action is Action.PAUSE:
                return answered
            # Final: from now on the attempt has this answer, whatever happens to the review.
            number = chain.head_of(statements).number + 1
            settled = msgspec.structs.replace(
                known, action=answered.action, reason=answered.reason, record=number, at=self._clock()
            )
            row = (key, call_key(attempt), to_text(settled))
            statements.run("UPDATE sg_rulings SET body = ?, record = ? WHERE attempt = ?", row[2], number, key)
            record = _decision_record(attempt, answered, rewriting)
            record[SEAL] = seal_of(RULINGS, key, row)
            chain.append(statements, "decision", self._clock(), record)
        self._publish(attempt, answered, guard_knows=False)
        return answered

    def _ask(self, statements: Statements, attempt: ToolCall, known: _Remembered, ruling: Ruling) -> Ruling:
        reason, version, masked = known.reason, ruling.policy_version, self.policy.masked_arguments
        review = self.reviews.ask(statements, attempt, known.rule_ids, reason, version, masked)
        action = _ANSWERS.get(review.status, Action.PAUSE)
        if action is not Action.PAUSE:
            word = "approved" if action is Action.ALLOW else "rejected"
            reason = f"{word} by {review.by}{f': {review.note}' if review.note else ''}"
        return msgspec.structs.replace(ruling, action=action, reason=reason, review=review)

    def _notify(self, review: Review) -> None:
        self.outgoing([review_notice(review, self.policy)])

    def _publish(self, attempt: ToolCall, ruling: Ruling, *, guard_knows: bool) -> None:
        """Emit the decision; fold it into the rules' states where the guard has not done so."""
        decision = decision_event(attempt, ruling.action, [alert.rule_id for alert in ruling.alerts])
        self._emit(decision)
        if not guard_knows:
            self._fold(lambda: self.guard.note_answer(decision))

    def _remembered(self, key: str, attempt: ToolCall) -> _Remembered | None:
        rows = self.database.read("SELECT attempt, call, body FROM sg_rulings WHERE attempt = ?", key) if key else []
        if not rows:
            return None
        known = from_text(rows[0][2], _Remembered)
        if known.action is not Action.ALLOW:
            return known
        with self.database.transaction() as statements:
            if is_sealed(statements, known.record, seal_of(RULINGS, key, rows[0])):
                if self._clock() - known.at < FRESH and not _is_derived(attempt.event_id):
                    return known
                # The call may have run: whoever asks now asks about another run.
                statements.run("DELETE FROM sg_rulings WHERE attempt = ?", key)
                return None
        _logger.error("an answer was changed outside stream_guard and does not count; see audit verify")
        return None

    def _ended(self, session_id: str) -> _Remembered | None:
        rows = self.database.read("SELECT body FROM sg_ended WHERE session = ?", digest_of(session_id))
        return from_text(rows[0][0], _Remembered) if rows else None

    def _key(self, attempt: ToolCall) -> str:
        """Return the identity of a question: everything its answer hangs on; empty when the source gives it no id."""
        event_id = "" if _is_derived(attempt.event_id) else attempt.event_id
        if not attempt.call_id and not event_id:
            return ""
        asked = [attempt.session_id, attempt.call_id, event_id, attempt.tool, digest_of(attempt.args)]
        return digest_of([*asked, attempt.contested, self.policy.version])

    def _forget(self, result: ToolResult) -> None:
        """Drop the ruling of a call that has its result: the next call under the same id is another attempt."""
        call = digest_of([result.session_id, result.call_id])
        if self.database.read("SELECT 1 FROM sg_rulings WHERE call = ?", call):
            with self.database.transaction() as statements:
                statements.run("DELETE FROM sg_rulings WHERE call = ?", call)


def _is_derived(event_id: str) -> bool:
    """Whether an id is made by us, and so not the caller's."""
    return event_id[:1] in ("", "~")


def _decision_record(attempt: ToolCall, ruling: Ruling, rewriting: Rewriting | None = None) -> dict[str, object]:
    """Return what the audit keeps of a decision: every rule that matched, and a digest of the arguments.

    Names that a caller chose may hold secrets, and evidence is shown to others. The session's is what it is found by.
    Of a call that was changed, the digest is that of the arguments that run, beside that of those that came.
    """
    record: dict[str, object] = {
        "session_id": attempt.session_id,
        "event_id": mask_id(attempt.event_id),
        "call_id": mask_id(attempt.call_id),
        "tool": mask_secrets(attempt.tool),
        "agent": mask_secrets(attempt.agent),
        "arguments_digest": digest_of(attempt.args),
        "action": ruling.action.word,
        "reason": ruling.reason,
        "rule_ids": list(ruling.rule_ids),
        "policy_version": ruling.policy_version,
        "review": ruling.review.id if ruling.review is not None else "",
    }
    if rewriting is None:
        return record
    word = Action.MODIFY.word if ruling.action is Action.ALLOW else ruling.action.word
    changed = {"action": word, "modified_by": list(rewriting.rules), "asked_digest": rewriting.asked_digest}
    return record | changed
