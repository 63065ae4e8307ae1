"""Reviews: questions to a person. ``anomaly_review`` holds an attempt back; ``anomaly_alert`` holds nothing back.

An approval is for one attempt: its session, its tool, its exact arguments and its policy. The attempt that it lets
through uses it up. Any other attempt opens a new review.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Final

import msgspec

from stream_guard.history import bypasses, incidents, review_rows
from stream_guard.history.bypasses import Bypass, Grant
from stream_guard.history.database import Database, Statements
from stream_guard.history.records import AnswerRefusedError, canonical
from stream_guard.history.review_rows import Review, Status, binding_of, call_key_of
from stream_guard.judge.model import Alert, Json, ToolCall
from stream_guard.judge.patterns import fold_all
from stream_guard.redaction import redact
from stream_guard.settings import ReviewSettings

__all__ = ["TIMEOUT", "Review", "Reviews", "Status", "call_key"]

_TENANT: Final = "tenant"  # the label that names it
_MASKED: Final = "[masked by the policy]"


class Reviews:
    """All reviews of one history. Every change is one transaction and one audit record."""

    def __init__(
        self, database: Database, rules: ReviewSettings | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._rules = rules or ReviewSettings()
        self._clock = clock
        # Called for each attempt that now waits for a person, before that is committed: nobody waits unnoticed.
        self.notify: Callable[[Review], None] = lambda _: None

    def ask(
        self,
        statements: Statements,
        attempt: ToolCall,
        rule_ids: tuple[str, ...],
        reason: str,
        policy_version: str,
        masked: Collection[str] = (),
    ) -> Review:
        """Return the review that an attempt depends on; open one when there is none that is still valid.

        An approved one is returned as ``used``: this attempt has used it up. Where no person can be asked, a review
        that is not kept is returned as ``rejected``, with the reason. ``masked`` names arguments that are not shown.
        """
        now = self._expire(statements)
        written = canonical(attempt.args)
        digest = sha256(written).hexdigest()
        binding = binding_of(attempt.session_id, attempt.tool, digest, policy_version)
        self._void_others(statements, call_key(attempt), binding, now)
        rows = "WHERE binding = ? AND status IN ('open', 'approved', 'rejected') ORDER BY opened DESC"
        for known in review_rows.select(statements, rows, binding):
            if known.status == "open":
                return known
            answered = self._set_status(statements, known, "used", now) if known.status == "approved" else known
            return self._settle(statements, answered, ReviewAnswer(known.by, via=known.via), now)
        opened = Review(
            id=secrets.token_hex(8),
            kind="anomaly_review",
            status="open",
            session_id=attempt.session_id,
            opened=now,
            expires=now + self._rules.timeout,
            policy_version=policy_version,
            rule_ids=rule_ids,
            reason=reason,
            tool=attempt.tool,
            call_id=attempt.call_id,
            agent=attempt.agent,
            agent_path=attempt.agent_path,
            arguments_digest=digest,
            parse_error=bool(attempt.parse_error),
            tenant=attempt.labels.get(_TENANT, ""),
        )
        obstacle = self._obstacle(statements, len(written))
        if obstacle:
            return msgspec.structs.replace(opened, id="", status="rejected", by=ITSELF, note=obstacle)
        asked = msgspec.structs.replace(opened, arguments=_in_full(attempt.args, masked))
        asked = review_rows.insert(statements, asked)
        bypass = None if asked.parse_error else bypasses.covering(statements, asked, asked.arguments, now)
        if bypass is not None:
            return self._use_bypass(statements, asked, bypass, now)
        self.notify(asked)
        return asked

    def withdraw(self, statements: Statements, attempt: ToolCall, policy_version: str) -> None:
        """Void the open reviews of an attempt: it is judged anew, and nobody need answer for it."""
        digest = sha256(canonical(attempt.args)).hexdigest()
        binding = binding_of(attempt.session_id, attempt.tool, digest, policy_version)
        for known in review_rows.select(statements, "WHERE binding = ? AND status = 'open'", binding):
            self._set_status(statements, known, "void", self._clock())

    def alert(self, statements: Statements, incident: str, alert: Alert) -> Review:
        """Open an ``anomaly_alert``: a person should see it, and no attempt waits for the answer."""
        opened = Review(
            id=secrets.token_hex(8),
            kind="anomaly_alert",
            status="open",
            session_id=alert.session_id,
            opened=self._clock(),
            policy_version=alert.policy_version,
            rule_ids=(alert.rule_id,),
            reason=alert.reason or alert.detail,
            agent=alert.agent,
            incident=incident,
            tenant=alert.labels.get(_TENANT, ""),
        )
        return review_rows.insert(statements, opened)

    def approve(
        self, name: str, *, by: str, note: str = "", arguments_digest: str = "", via: str = "", tenant: str = ""
    ) -> Review:
        """Let the attempt through, once; ``arguments_digest`` says which arguments the person has seen.

        The one that asked cannot. Where ``reviews.approvals`` asks for more people, the review stays open until the
        last of them has approved.
        """
        return self._answer(name, "approved", ReviewAnswer(by, note, via, tenant, arguments_digest))

    def reject(self, name: str, *, by: str, note: str = "", via: str = "", tenant: str = "") -> Review:
        """Refuse the attempt: the same arguments stay refused in this session under this policy."""
        return self._answer(name, "rejected", ReviewAnswer(by, note, via, tenant))

    def acknowledge(self, name: str, *, by: str, note: str = "", via: str = "", tenant: str = "") -> Review:
        """Say that an ``anomaly_alert`` has been seen."""
        return self._answer(name, "acknowledged", ReviewAnswer(by, note, via, tenant))

    def bypass(self, name: str, grant: Grant) -> Bypass:
        """Let attempts like the one of a review through for a while, and approve the review itself.

        Whoever may not approve the review may not do this either. Nobody can where several people have to approve, or
        where the arguments could not be read: a shape says too little then.
        """
        with self._database.transaction(durable=True) as statements:
            now = self._expire(statements)
            found = review_rows.find(statements, name)
            if found is None or grant.tenant not in ("", found[0].tenant):
                raise AnswerRefusedError(f"there is no review {name[:40]!r}", missing=True)
            known, genuine = found
            problem = objection(known, "approved", grant.by, "", genuine=genuine)
            if self._rules.approvals > 1:
                problem = f"{self._rules.approvals} people have to approve each attempt (reviews.approvals)"
            elif known.parse_error:
                problem = f"the arguments of review {known.id} could not be read; answer each attempt by itself"
            if problem:
                raise AnswerRefusedError(problem)
            opened = bypasses.insert(statements, known, grant, now)
            answer = ReviewAnswer(grant.by, grant.note, grant.via, grant.tenant)
            self._write_answer(statements, known, "approved", answer, now)
        return opened

    def _use_bypass(self, statements: Statements, review: Review, bypass: Bypass, now: float) -> Review:
        by, note = f"{bypass.by} (bypass {bypass.id})", bypass.note
        used = msgspec.structs.replace(review, by=by, note=note, via="bypass", decided=now, expires=None)
        used = self._set_status(statements, used, "used", now)
        return self._settle(statements, used, ReviewAnswer(by, via="bypass"), now)

    def get(self, name: str, tenant: str = "") -> Review | None:
        """Return a review as it stands now, or None; with a tenant, only one of that tenant."""
        with self._database.transaction() as statements:
            self._expire(statements)
            found = review_rows.find(statements, name)
            return found[0] if found is not None and tenant in ("", found[0].tenant) else None

    def listing(self, status: Status | None = None, limit: int = 100, tenant: str = "") -> list[Review]:
        """Return reviews, the latest first, with excerpts of their arguments; ``get`` has all of them."""
        with self._database.transaction() as statements:
            self._expire(statements)
            found = review_rows.listing(statements, status, tenant, limit)
        return [msgspec.structs.replace(review, arguments=redact(review.arguments)) for review in found]

    def _answer(self, name: str, status: Status, answer: ReviewAnswer) -> Review:
        with self._database.transaction(durable=True) as statements:
            now = self._expire(statements)
            found = review_rows.find(statements, name)
            if found is None or answer.tenant not in ("", found[0].tenant):
                problem = f"there is no review {name[:40]!r}; list them with: stream-guard reviews list"
                failure = AnswerRefusedError(problem, missing=True)
            else:
                known, genuine = found
                problem = objection(known, status, answer.by, answer.arguments_digest, genuine=genuine)
                failure = AnswerRefusedError(problem)
                if not problem:
                    return self._write_answer(statements, known, status, answer, now)
        raise failure  # outside the transaction, so that expired reviews stay recorded

    def _write_answer(
        self, statements: Statements, known: Review, status: Status, answer: ReviewAnswer, now: float
    ) -> Review:
        note = "; ".join(text for text in (known.note, answer.note) if text)
        changed = msgspec.structs.replace(known, by=answer.by, note=note, via=answer.via, decided=now, expires=None)
        if status != "approved":
            return self._settle(statements, self._set_status(statements, changed, status, now), answer, now)
        approvals = (*known.approvals, answer.by)
        changed = msgspec.structs.replace(changed, approvals=approvals, by=", ".join(approvals))
        if len(approvals) < self._rules.approvals:
            waiting = msgspec.structs.replace(changed, decided=None, expires=known.expires)
            return review_rows.update(statements, waiting, now, "approval")
        # An approval that no attempt uses expires too.
        changed = msgspec.structs.replace(changed, expires=now + self._rules.timeout)
        return self._settle(statements, self._set_status(statements, changed, status, now), answer, now)

    def _settle(self, statements: Statements, review: Review, answer: ReviewAnswer, now: float) -> Review:
        """Close the incidents that a person has answered with a review: those about which no other one is open."""
        asked = {rule for other in review_rows.waiting(statements, review.session_id) for rule in other.rule_ids}
        for rule in review.rule_ids:
            if rule not in asked:
                note = "; ".join(text for text in (f"review {review.id} {review.status}", answer.note) if text)
                name = incidents.incident_id(review.session_id, rule)
                incidents.close(statements, name, by=answer.by, note=note, time=now, via=answer.via)
        return review

    def _obstacle(self, statements: Statements, size: int) -> str:
        """Return why no person can be asked; empty when one can."""
        if size > self._rules.max_bytes:
            return f"the arguments have {size} bytes, more than the {self._rules.max_bytes} a person is shown"
        [(waiting,)] = statements.run(
            "SELECT count(*) FROM sg_reviews WHERE status = 'open' AND kind = 'anomaly_review'"
        )
        if waiting >= self._rules.max_open:
            return f"{waiting} attempts wait for a person already; answer those first"
        return ""

    def _expire(self, statements: Statements) -> float:
        """Settle what has expired: unanswered reviews get the outcome of the settings, unused approvals end."""
        now = self._clock()
        rows = "WHERE status IN ('open', 'approved') AND expires <= ? ORDER BY opened, id"
        for known in review_rows.select(statements, rows, now):
            if known.status == "open" and self._rules.on_timeout == "approve":
                granted = msgspec.structs.replace(known, by=TIMEOUT, decided=now, expires=now + self._rules.timeout)
                self._set_status(statements, granted, "approved", now)
            else:
                by = known.by or TIMEOUT
                self._set_status(statements, msgspec.structs.replace(known, by=by, decided=now), "expired", now)
        return now

    def _void_others(self, statements: Statements, call: str, binding: str, now: float) -> None:
        """Void the open and approved reviews of a call that now comes with other arguments."""
        if not call:
            return
        rows = "WHERE attempt = ? AND binding <> ? AND status IN ('open', 'approved')"
        for known in review_rows.select(statements, rows, call, binding):
            self._set_status(statements, known, "void", now)

    def _set_status(self, statements: Statements, review: Review, status: Status, now: float) -> Review:
        return review_rows.update(statements, msgspec.structs.replace(review, status=status), now)


class ReviewAnswer(msgspec.Struct, frozen=True):
    """What a person says, and how it is known who it is."""

    by: str
    note: str = ""
    via: str = ""
    tenant: str = ""  # theirs: a review of another one is not there for them
    arguments_digest: str = ""


def call_key(attempt: ToolCall) -> str:
    """Return the digest of the call's session and id; empty when the source gives no id."""
    return call_key_of(attempt.session_id, attempt.call_id)


def _in_full(value: Json, masked: Collection[str]) -> Json:
    """Return arguments as a person is shown them: all there is, and nothing that could be taken for something else."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)  # JSON has neither NaN nor infinity
    if isinstance(value, list | tuple):
        return [_in_full(item, masked) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _MASKED if key in masked else _in_full(item, masked) for key, item in value.items()}
    return repr(value)  # of callers in this process: keys or values that JSON does not have


TIMEOUT: Final = "timeout"  # stands for the person when nobody answered in time
ITSELF: Final = "stream_guard"  # stands for the person when nobody could be asked
_RESERVED: Final = frozenset((TIMEOUT, ITSELF))
_VERSION: Final = re.compile(r"@v?[0-9][0-9A-Za-z.+_-]*$")  # of an agent; an address of mail has a name there


def objection(known: Review, status: Status, by: str, arguments_digest: str, *, genuine: bool) -> str:
    """Return why an answer is refused; empty when it is not."""
    if not genuine:
        return (
            f"review {known.id} was changed outside stream_guard and cannot be answered; run: stream-guard audit verify"
        )
    if (status == "acknowledged") != (known.kind == "anomaly_alert"):
        fitting = "acknowledge" if known.kind == "anomaly_alert" else "approve or reject"
        return f"review {known.id} is an {known.kind}: {fitting} it"
    if known.status != "open":
        return f"review {known.id} is {known.status} already{f', by {known.by}' if known.by else ''}"
    if arguments_digest and arguments_digest != known.arguments_digest:
        return f"review {known.id} is about other arguments: their digest is {known.arguments_digest}"
    return _objection_to_name(known, status, by)


def _objection_to_name(known: Review, status: Status, by: str) -> str:
    person = same_name(by)
    if not person:
        return "say who answers: a name with letters or digits"
    if person in _RESERVED:
        return f"{by!r} stands for an answer that no person gave; answer under your own name"
    if status == "approved" and asks(known, by):
        return f"{by!r} asked for this; somebody else has to answer review {known.id}"
    if status == "approved" and person in map(same_name, known.approvals):
        return f"{by!r} has approved review {known.id} already; it needs another person as well"
    return ""


def asks(known: Review, by: str) -> bool:
    """Whether this is the name of the agent that asked, or of one above it, in any version."""
    asking = {
        same_name(form) for agent in (known.agent, *known.agent_path) for form in (agent, agent.rpartition("@")[0])
    }
    return bool({same_name(by), same_name(_VERSION.sub("", by))} & (asking - {""}))


def same_name(name: str) -> str:
    """Return the name as people tell names apart: case, look-alikes, invisible signs and spaces make no other."""
    return " ".join(fold_all(name).casefold().split())
