"""Inline: the same rules, asked in the agent's process before a tool runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from math import inf
from threading import Lock
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from stream_guard.alerting.delivery import alerts_of
from stream_guard.guard.clocks import ReceiverClock
from stream_guard.guard.decisions import Decider, decision_event, is_about
from stream_guard.guard.ended import KEPT, EndedSessions
from stream_guard.guard.rewriting import Rewriter, Rewritten
from stream_guard.guard.untold import UntoldAlerts
from stream_guard.judge.arguments import read_attempt
from stream_guard.judge.counts import Counts
from stream_guard.judge.findings import is_answered
from stream_guard.judge.judge import Counted, Judge
from stream_guard.judge.limits import NO_LIMIT
from stream_guard.judge.model import Action, Decision, Event, Finding, GateDecision, Header, ToolCall
from stream_guard.judge.ports import NO_ANSWERS, CommittingStore, JudgeAnswers, Store
from stream_guard.judge.ports import Answer as JudgeAnswer
from stream_guard.judge.spec import Policy
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import CheckpointStore, MemoryStore

_ALLOW: Final = Action.ALLOW  # asked for by name, a member of an enum costs more than a rule
_LISTED: Final = 4096  # attempts whose findings are listed again when they are asked about again
_TIDY_EVERY: Final = 1024  # events between two looks at how many sessions are in memory

Stamped = TypeVar("Stamped", bound=Header)
Answer = TypeVar("Answer")


class JudgedAttempt(NamedTuple):
    """What a guard made of a question."""

    decision: Decision
    attempt: ToolCall  # as it was judged: with an id and the time it came, its arguments read


class Guard:
    """Decides on an agent's tool calls inside its process. Safe to call from many threads; memory is bounded.

    It goes by one clock, its own: whatever callers stamp on their events, each is judged at the time it came.

    With a ``store``, sessions survive a restart, and a kill: what a question or an event changed is committed before
    the answer is returned. Where that fails, StoreError is raised: nothing was decided, and nothing may run.

    A session that a rule ended stays so for ``keep_ended`` seconds after its last attempt; None: for ever.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        store: CommittingStore | None = None,
        counts: Counts | None = None,
        limits: SessionLimits | None = None,
        clock: Callable[[], float | None] | None = None,
        answers: JudgeAnswers = NO_ANSWERS,
        keep_ended: float | None = KEPT,
    ) -> None:
        self.counts = counts if counts is not None else Counts()
        self._store = store if store is not None else MemoryStore()
        self._is_kept = store is not None
        self._is_shared = self._store.is_shared
        if self._is_shared:
            limits = (limits or SessionLimits()).model_copy(update={"in_memory": 0, "max_live": NO_LIMIT})
        self._judge = Judge(policy, limits, mode="inline", store=self._store, counts=self.counts, answers=answers)
        # Gets what a judge is to be asked, before the caller gets an answer; returns what nobody will be asked.
        self.ask: Callable[[Sequence[Finding]], Sequence[Finding]] = lambda asked: asked
        if self._is_shared:
            self._judge.share_rows()
        self._skew = self._judge.limits.max_future_skew
        self._clock = clock if clock is not None else ReceiverClock(self._skew)
        self._decider = Decider(self._judge)
        self._ended = EndedSessions(self._store, self.counts, keep=keep_ended)
        self._policy = policy
        self._rewriter = Rewriter(policy)
        self._lock = Lock()
        # What `with` does, but found once: every check takes the lock.
        self._acquire, self._release = self._lock.acquire, self._lock.release
        self._untidied = 0
        # Findings by session and attempt, for the lists in decisions; the decisions themselves rest on the open calls.
        self._listed: dict[tuple[str, int], list[Finding]] = {}
        self._looked_through = -inf  # when the rows that are not in memory were last asked how old they are
        self._unreturned: list[Finding] = []  # of events that could not be stored
        self.untold: UntoldAlerts | None = None  # of a guard whose alerts a gate tells

    def observe(self, event: Event) -> list[Finding]:
        """Fold an event that has happened (a turn, a result, a user's message); return the findings.

        Those of an earlier event are among them when its try could not be stored: redelivered, it would find nothing.
        """
        found: list[Finding] = []

        def feed() -> list[Finding]:
            if self._is_shared:  # a try that failed has left nothing
                found.clear()
            found.extend([*self._unreturned, *self._feed(self._stamp(event))])
            self._unreturned = []
            return found

        try:
            return self._kept((event,), feed)
        except BaseException:
            if not self._is_shared:
                with self._lock:
                    self._unreturned += found
            raise

    @property
    def own_store(self) -> CheckpointStore | None:
        """The file of the sessions, where they have one."""
        return self._store if isinstance(self._store, CheckpointStore) else None

    def hand_over_alerts(self) -> UntoldAlerts:
        """Return the alerts that are not told yet; from now on every alert is one of them, in the same commit."""
        self.untold = UntoldAlerts(self._store if self._is_kept else None)
        return self.untold

    def receive(self, events: Sequence[Event], progress: Callable[[Store], None] | None = None) -> list[Event]:
        """Fold events as ``observe`` does, and store them together; return those to record: no redelivery is one.

        ``progress`` puts rows of the caller's into the store, in the same commit.
        """

        def receive() -> list[Event]:
            recorded = [stamped for event in events if (stamped := self._receive(event)) is not None]
            if progress is not None:
                progress(self._store)
            return recorded

        return self._kept(events, receive)

    def _receive(self, event: Event) -> Event | None:
        stamped = self._stamp(event)
        is_known = self._judge.has_seen(stamped)
        self._feed(stamped)
        return None if is_known else stamped

    def note_answer(self, decision: GateDecision) -> tuple[()]:
        """Fold what was answered to a question where that is another answer than this guard gave."""

        def feed() -> tuple[()]:
            stamped = self._stamp(decision)
            self._judge.note_answer(stamped)
            self._feed(stamped)
            return ()

        return self._kept((decision,), feed)

    def end_all(self) -> list[Finding]:
        """End every open session, and return what rules find at the end: no more events will come."""
        with self._lock:
            found = self._judge.end()
            self._hand_on(found)
            self._judge.commit()
            self._store.commit({})
        return found

    def open_obligations(self, session_id: str) -> list[Finding]:
        """Return what rules would find if the session ended now; the session goes on as if nobody had asked."""
        with self._lock:

            def look() -> list[Finding]:
                ended = self._ended.reason(session_id, self._clock())
                return [] if ended is not None else self._judge.preview_end(session_id)

            return self._store.together([session_id, self._ended.row_of(session_id)], look)

    def check(self, attempt: ToolCall, *, may_modify: bool = False) -> Decision:
        """Decide on a tool call before it runs: the strictest action that a matching rule asks for.

        A call that its turn announced was judged with the turn; the decision rests on those findings. An attempt
        that was refused is refused again. Once a session has ended, every attempt in it is refused.

        With ``may_modify`` the answer may be ``modify``: the caller promises to run the tool with ``decision.args``.
        """
        if not may_modify:
            return self.judge(attempt).decision
        changed, rules = self.rewrite(attempt)
        decision = self.judge(changed).decision
        if not rules or decision.action is not _ALLOW:
            return decision
        return replace(decision, action=Action.MODIFY, args=changed.args, modified_by=rules)

    def rewrite(self, attempt: ToolCall) -> Rewritten:
        """Return a call as rules with ``then: modify`` let it run, for callers that can run it so."""
        attempt = read_attempt(attempt)
        with self._lock:  # an engine runs for one caller at a time
            return self._rewriter.rewrite(attempt)

    def judge(self, attempt: ToolCall) -> JudgedAttempt:
        """Return the decision on an attempt, and the attempt as it was judged."""
        if self._is_kept:  # before the caller acts on it: what was counted stays counted after a crash
            return self._kept((attempt,), lambda: self._decide(attempt), self._ended.row_of(attempt.session_id))
        self._acquire()
        try:
            return self._decide(attempt)
        finally:
            self._release()

    async def acheck(self, attempt: ToolCall) -> Decision:
        """Decide as ``check`` does; the event loop does not wait while that is stored."""
        return (await asyncio.to_thread(self.judge, attempt) if self._is_kept else self.judge(attempt)).decision

    def judge_for(self, policy: Policy) -> Judge:
        """Return what ``use`` takes: another policy, compiled while this guard goes on judging."""
        now = self._judge
        return Judge(policy, now.limits, mode="inline", counts=self.counts, answers=now.answers)

    def knows_more(self, asked: Iterable[str]) -> bool:
        """Whether a judge has answered one of the inquiries with these digests meanwhile."""
        return any(is_answered(self._judge.answers.find(digest)) for digest in asked)

    def settle(self, finding: Finding, answer: JudgeAnswer | None) -> Finding | None:
        """Return what an answer makes of a finding that waited for it."""
        with self._lock:
            return self._judge.settle(finding, answer)

    def use(self, judge: Judge) -> None:
        """Judge by another policy from the next event on. Rules that did not change keep their states.

        What was decided on open calls counts no longer: asked about again, they are judged anew.
        """
        decider, rewriter = Decider(judge), Rewriter(judge.policy)
        with self._lock:
            self._judge.use(judge)
            self._decider, self._policy, self._rewriter = decider, judge.policy, rewriter
            self._listed.clear()

    def forget_told(self) -> None:
        """Drop the rows of alerts that were told, where other processes would tell them again."""
        if self._is_shared:
            self.commit()

    def commit(self) -> None:
        """Write every session to the store; what was told goes out of it."""
        self._kept((), lambda: None)

    def _kept(self, events: Sequence[Event], work: Callable[[], Answer], *others: str) -> Answer:
        """Do some work on events and other rows, and return when what it changed is stored, where there is a store."""
        with self._lock:
            if not self._is_kept:
                return work()

            def saved() -> Answer:
                if self._is_shared:  # others may have changed what was in memory, and a try that failed left it there
                    self._judge.drop_memory()
                if self.untold is not None:
                    self.untold.begin()
                found = work()
                self._judge.commit()
                return found

            rows = [row for event in events for row in self._judge.rows_of(event)] if self._is_shared else ()
            found = self._store.together((*rows, *others), saved)
            if self.untold is not None:
                self.untold.end()
            return found

    def _stamp(self, event: Stamped) -> Stamped:
        """Return an event with the time at which it came. A stamp that is far ahead of it is counted."""
        return replace(event, time=self._now(event))

    def _now(self, event: Header) -> float | None:
        now, told = self._clock(), event.time
        if told is not None and now is not None and told > now + self._skew:
            self.counts.disbelieved_times += 1
        return now

    def _decide(self, attempt: ToolCall) -> JudgedAttempt:
        judged = self._judge.ask(replace(attempt, time=self._now(attempt), asked=True))
        attempt, call = judged.counted, judged.opened
        found = [*judged.findings, *self._tidy()]
        self._hand_on(found)
        if judged.asked_again:
            attempt = replace(attempt, time=call.since)  # recorded again, it is what was recorded then
        if found:
            self._hold_untold(attempt, found)
        if judged.is_repeat:
            found += self._listed.get((attempt.session_id, attempt.attempt), ())
        elif found:
            self._list(found)
        objections = call.objections or ()
        decision = self._decider.decide(attempt, found, objections)
        action = decision.action
        if action is _ALLOW and objections and self._decider.fails_open(objections):
            self.counts.fail_open += 1
        ended = self._ended.reason(attempt.session_id, self._clock()) if self._ended.are_some else None
        if ended is not None:
            self._ended.end(attempt.session_id, ended, self._clock())
            reason = f"the session was ended: {ended}"
            action = Action.TERMINATE_SESSION
            decision = replace(decision, action=action, reason=reason, session_ended=True)
        elif decision.session_ended:
            self._ended.end(attempt.session_id, decision.reason, self._clock())
        if (action is not _ALLOW) is not call.refused:
            self._note_change(attempt, judged, decision)
        return JudgedAttempt(decision, attempt)

    def _note_change(self, attempt: ToolCall, judged: Counted, decision: Decision) -> None:
        """Fold a refusal into the rules' states: a blocked confirmation confirms nothing. So for one taken back."""
        judged.opened.refused = decision.action is not _ALLOW
        self._judge.feed(decision_event(attempt, decision.action, decision.rule_ids))

    def _hold_untold(self, attempt: ToolCall | None, found: Sequence[Finding]) -> None:
        """Have the alerts of new findings told by the gate; those about an attempt are part of its answer."""
        if self.untold is not None:
            for finding in found:
                is_followup = attempt is None or not is_about(attempt, finding)
                self.untold.add(alerts_of((finding,), self._policy.version), is_followup=is_followup)

    def _feed(self, event: Event) -> list[Finding]:
        found = [*self._judge.feed(event).findings, *self._tidy()]
        self._hand_on(found)
        self._hold_untold(None, found)
        self._list(found)
        return found

    def _hand_on(self, found: list[Finding]) -> None:
        """Take out what a judge is to be asked, and hand it on: it is no finding yet."""
        if self._judge.answers.asks and (asked := [finding for finding in found if finding.inquiry is not None]):
            unasked = [self._judge.settle(finding, None) for finding in self.ask(asked)]
            found[:] = [one for one in (*found, *unasked) if one is not None and one.inquiry is None]

    def _list(self, found: Iterable[Finding]) -> None:
        fresh: dict[tuple[str, int], list[Finding]] = {}
        for finding in found:
            if finding.attempt >= 0:
                fresh.setdefault((finding.session_id, finding.attempt), []).append(finding)
        self._listed |= fresh  # a session that is renewed numbers its attempts anew
        while len(self._listed) > _LISTED:
            del self._listed[next(iter(self._listed))]

    def _tidy(self) -> list[Finding]:
        """Every so many events, end the sessions that are over, and move those that are too many out of memory."""
        self._untidied += 1
        if self._untidied < _TIDY_EVERY or self._is_shared:  # of shared ones, none stays
            return []
        now, found = self._clock(), list[Finding]()
        if now is not None:
            is_due = now - self._looked_through >= self._policy.idle
            found = self._judge.drop_idle(now, stored=is_due)
            self._looked_through = now if is_due else self._looked_through
        self._judge.make_room()
        self._untidied = 0
        return found
