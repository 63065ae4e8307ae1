"""Reviews: questions to a person. ``anomaly_review`` holds an attempt back; ``anomaly_alert`` holds nothing back.

An approval is for one attempt: its session, its tool, its exact arguments and its policy. The attempt that it lets
through uses it up. Any other attempt opens a new review.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stream_guard.history import audit
from stream_guard.history.canonical import digest_of
from stream_guard.history.database import Database, Statements
from stream_guard.history.records import AnswerRefusedError, from_text, to_text
from stream_guard.model import Alert, Json, ToolCall
from stream_guard.redaction import redact
from stream_guard.settings import ReviewSettings

Kind: TypeAlias = Literal["anomaly_review", "anomaly_alert"]
Status: TypeAlias = Literal["open", "approved", "rejected", "expired", "used", "void", "acknowledged"]

TIMEOUT: Final = "timeout"  # stands for the person when nobody answered in time


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a person, and the answer so far."""

    id: str
    kind: Kind
    status: Status
    session_id: str
    opened: float
    policy_version: str
    rule_ids: tuple[str, ...] = ()
    reason: str = ""
    tool: str = ""
    call_id: str = ""
    agent: str = ""
    arguments_digest: str = ""
    arguments: Json = None  # redacted, for the person; the digest is of the full arguments
    incident: str = ""
    expires: float | None = None
    decided: float | None = None
    by: str = ""
    note: str = ""


class Reviews:
    """All reviews of one history. Every change is one transaction and one audit record."""

    def __init__(
        self, database: Database, rules: ReviewSettings | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._rules = rules or ReviewSettings()
        self._clock = clock

    def ask(
        self, statements: Statements, attempt: ToolCall, rule_ids: tuple[str, ...], reason: str, policy_version: str
    ) -> Review:
        """Return the review that an attempt depends on; open one when there is none that is still valid.

        An approved one is returned as ``used``: this attempt has used it up.
        """
        now = self._expire(statements)
        digest = digest_of(attempt.args)
        binding = digest_of([attempt.session_id, attempt.tool, digest, policy_version])
        call = call_key(attempt)
        self._void_others(statements, call, binding, now)
        rows = statements.run(
            "SELECT body FROM sg_reviews WHERE binding = ? AND status IN ('open', 'approved', 'rejected') "
            "ORDER BY opened DESC LIMIT 1",
            binding,
        )
        if rows:
            known = from_text(rows[0][0], Review)
            return self._set_status(statements, known, "used", now) if known.status == "approved" else known
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
            arguments_digest=digest,
            arguments=redact(attempt.args),
        )
        self._insert(statements, opened, binding, call)
        return opened

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
        )
        self._insert(statements, opened, "", "")
        return opened

    def approve(self, name: str, *, by: str, note: str = "", arguments_digest: str = "") -> Review:
        """Let the attempt through, once; ``arguments_digest`` says which arguments the person has seen."""
        return self._answer(name, "approved", by, note, arguments_digest)

    def reject(self, name: str, *, by: str, note: str = "") -> Review:
        """Refuse the attempt: the same arguments stay refused in this session under this policy."""
        return self._answer(name, "rejected", by, note, "")

    def acknowledge(self, name: str, *, by: str, note: str = "") -> Review:
        """Say that an ``anomaly_alert`` has been seen."""
        return self._answer(name, "acknowledged", by, note, "")

    def get(self, name: str) -> Review | None:
        """Return a review as it stands now, or None."""
        with self._database.transaction() as statements:
            self._expire(statements)
            return _find(statements, name)

    def listing(self, status: Status | None = None, limit: int = 100) -> list[Review]:
        """Return reviews, the latest first."""
        with self._database.transaction() as statements:
            self._expire(statements)
            where, values = ("WHERE status = ?", (status,)) if status else ("", ())
            sql = f"SELECT body FROM sg_reviews {where} ORDER BY opened DESC, id LIMIT ?"  # noqa: S608  # no value is in the text
            return [from_text(body, Review) for (body,) in statements.run(sql, *values, limit)]

    def _answer(self, name: str, status: Status, by: str, note: str, arguments_digest: str) -> Review:
        with self._database.transaction() as statements:
            now = self._expire(statements)
            known = _find(statements, name)
            problem = _objection(known, name, status, arguments_digest)
            if known is None or problem:
                failure = AnswerRefusedError(problem, missing=known is None)
            else:
                # An approval that no attempt uses expires too.
                expires = now + self._rules.timeout if status == "approved" else None
                changed = msgspec.structs.replace(known, by=by, note=note, decided=now, expires=expires)
                return self._set_status(statements, changed, status, now)
        raise failure  # outside the transaction, so that expired reviews stay recorded

    def _expire(self, statements: Statements) -> float:
        """Settle what has expired: unanswered reviews get the outcome of the settings, unused approvals end."""
        now = self._clock()
        rows = statements.run(
            "SELECT body FROM sg_reviews WHERE status IN ('open', 'approved') AND expires <= ? ORDER BY opened, id", now
        )
        for (body,) in rows:
            known = from_text(body, Review)
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
        rows = statements.run(
            "SELECT body FROM sg_reviews WHERE attempt = ? AND binding <> ? AND status IN ('open', 'approved')",
            call,
            binding,
        )
        for (body,) in rows:
            self._set_status(statements, from_text(body, Review), "void", now)

    def _insert(self, statements: Statements, review: Review, binding: str, call: str) -> None:
        statements.run(
            "INSERT INTO sg_reviews VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(review.id, review.kind, review.status, review.opened, review.expires, binding, call, to_text(review)),
        )
        audit.append(statements, "review_opened", review.opened, _audited(review))

    def _set_status(self, statements: Statements, review: Review, status: Status, now: float) -> Review:
        changed = msgspec.structs.replace(review, status=status)
        statements.run(
            "UPDATE sg_reviews SET status = ?, expires = ?, body = ? WHERE id = ?",
            *(status, changed.expires, to_text(changed), changed.id),
        )
        audit.append(statements, f"review_{status}", now, _audited(changed))
        return changed


def call_key(attempt: ToolCall) -> str:
    """Return the digest of the call's session and id; empty when the source gives no id."""
    return digest_of([attempt.session_id, attempt.call_id]) if attempt.call_id else ""


def _find(statements: Statements, name: str) -> Review | None:
    if not (name.isascii() and name.isalnum()):
        return None
    rows = statements.run("SELECT body FROM sg_reviews WHERE id = ?", name)
    return from_text(rows[0][0], Review) if rows else None


def _objection(known: Review | None, name: str, status: Status, arguments_digest: str) -> str:
    """Return why an answer is refused; empty when it is not."""
    if known is None:
        return f"there is no review {name[:40]!r}; list them with: stream-guard reviews list"
    if (status == "acknowledged") != (known.kind == "anomaly_alert"):
        fitting = "acknowledge" if known.kind == "anomaly_alert" else "approve or reject"
        return f"review {known.id} is an {known.kind}: {fitting} it"
    if known.status != "open":
        return f"review {known.id} is {known.status} already{f', by {known.by}' if known.by else ''}"
    if arguments_digest and arguments_digest != known.arguments_digest:
        return f"review {known.id} is about other arguments: their digest is {known.arguments_digest}"
    return ""


def _audited(review: Review) -> dict[str, Any]:
    """Return what the audit records of a review; of the arguments, only the digest."""
    kept = ("kind", "session_id", "tool", "call_id", "arguments_digest", "policy_version", "by", "note", "incident")
    return {
        "review": review.id,
        "rule_ids": list(review.rule_ids),
        **{name: value for name in kept if (value := getattr(review, name))},
    }
