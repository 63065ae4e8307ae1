"""Sessions of ACS in the history: what was negotiated, which requests were seen, and the head of each chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from stream_guard.history import audit
from stream_guard.history.database import Database, Statements
from stream_guard.history.records import from_text, to_text
from stream_guard.judge.model import Json, resolved
from stream_guard.serve.acs.envelope import (
    CHAIN_MISMATCH,
    NOT_NEGOTIATED,
    REPLAY_DETECTED,
    SESSION_REFUSED,
    AcsError,
    entry_hash,
)

WINDOW: Final = 300.0  # seconds that the time of a request may be off
_KEPT: Final = 2 * WINDOW  # how long requests are remembered: an older one is out of the window


@resolved
class AcsSession(msgspec.Struct, kw_only=True):
    """What is kept of a session."""

    methods: tuple[str, ...] = ()
    head: str = ""
    entries: int = 0
    deferred: int = 0
    ended: str = ""  # why, where a rule ended it


class AcsSessions:
    """All sessions of one history. Each change is one transaction, so that several servers agree."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def negotiate(self, session_id: str, methods: Sequence[str], ids: Sequence[str], now: float) -> None:
        """Remember what a handshake agreed on; what the session did before stays."""
        with self._database.transaction() as statements:
            self._refuse_replay(statements, session_id, ids, now)
            session = _find(statements, session_id) or AcsSession()
            session.methods = tuple(methods)
            _keep(statements, session_id, session)

    def admit(
        self, session_id: str, ids: Sequence[str], entry: dict[str, Json], *, claimed: str, now: float
    ) -> AcsSession:
        """Take a step into the chain of its session and return the session; AcsError where it must not be taken."""
        with self._database.transaction() as statements:
            session = _find(statements, session_id)
            method = str(entry["step_type"])
            if session is None or (method not in session.methods):
                raise AcsError(NOT_NEGOTIATED, "agree on this method with handshake/hello first", method=method)
            self._refuse_replay(statements, session_id, ids, now)
            if claimed and claimed != session.head:
                raise AcsError(CHAIN_MISMATCH, "the session's chain has another head", chain_hash=session.head)
            if session.ended:
                raise AcsError(SESSION_REFUSED, session.ended, reason="session_ended")
            session.entries += 1
            numbered = {"entry_id": str(session.entries), **entry}
            session.head = entry_hash(numbered, session.head)
            _keep(statements, session_id, session)
            return session

    def note(self, session_id: str, *, deferred: int = 0, ended: str = "") -> None:
        """Count a deferral, or remember that a rule has ended the session."""
        with self._database.transaction() as statements:
            session = _find(statements, session_id) or AcsSession()
            session.deferred += deferred
            session.ended = ended or session.ended
            _keep(statements, session_id, session)

    def record_substitution(self, session_id: str, request_id: str, given: Mapping[str, Json], now: float) -> None:
        """Record that a client got another disposition than a rule asks for, because it cannot carry that out."""
        record = {"session_id": session_id, "request": request_id, "given": given["decision"]}
        with self._database.transaction() as statements:
            audit.append(statements, "acs_substitution", now, {**record, "reason_codes": given["reason_codes"]})

    @staticmethod
    def _refuse_replay(statements: Statements, session_id: str, ids: Sequence[str], now: float) -> None:
        statements.run("DELETE FROM sg_acs_requests WHERE seen < ?", now - _KEPT)
        for name in ids:
            key = sha256(f"{session_id}\0{name}".encode()).hexdigest()
            if statements.run("SELECT 1 FROM sg_acs_requests WHERE request = ?", key):
                raise AcsError(REPLAY_DETECTED, "this request was made before; make another id, and another nonce")
            statements.run("INSERT INTO sg_acs_requests VALUES (?, ?)", key, now)


def _find(statements: Statements, session_id: str) -> AcsSession | None:
    rows = statements.run("SELECT body FROM sg_acs_sessions WHERE session = ?", session_id)
    return from_text(rows[0][0], AcsSession) if rows else None


def _keep(statements: Statements, session_id: str, session: AcsSession) -> None:
    statements.run(
        "INSERT INTO sg_acs_sessions VALUES (?, ?, ?) ON CONFLICT (session) DO UPDATE "
        "SET body = excluded.body, noted = excluded.noted",
        session_id,
        to_text(session),
        statements.time(),
    )
