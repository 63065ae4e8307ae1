"""The audit, verified: a record or a sealed row that was changed, added, moved or taken out is a problem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stream_guard.history import bypasses, review_rows
from stream_guard.history.chain import (
    PRUNED,
    RULINGS,
    SEAL,
    START,
    Head,
    chain_rows,
    is_intact,
    is_sealed,
    read_record,
    record_of,
    seal_of,
)
from stream_guard.history.database import Database, Row
from stream_guard.history.records import digest_of

_SHOWN: Final = 20  # problems that are listed


class AuditCheck(msgspec.Struct, frozen=True):
    """The result of a check of the whole chain, and of the rows that it seals."""

    head: Head
    problems: tuple[str, ...]
    pruned: Head = Head(0, START)  # the latest record that was pruned with those before it


def verify(database: Database, expected: Head | None = None) -> AuditCheck:
    """Check the whole chain and the reviews; what was changed, added, moved or removed is a problem with its name.

    The chain may lack what a later record says was pruned.
    """
    problems: list[str] = []
    audited = _AuditedFacts()
    before, number, signed = START, 0, False
    missing: list[tuple[int, Head]] = []  # the first record that is missing, and the last with its digest
    seen = expected is None or expected.number == 0
    for number_found, digest, body in chain_rows(database):
        number += 1
        if number_found != number:
            before = _named_before(body)
            missing.append((number, Head(number_found - 1, before)))
            number = number_found
        has_signature = bool(database.key) and is_intact(digest, body, database.key)
        if has_signature:
            signed = True
        elif signed:
            problems.append(f"record {number} is not signed with the key, as the one before it is")
        is_known = has_signature or is_intact(digest, body)
        problems.extend(_faults(number, body, before, is_known=is_known))
        audited.note(body, may_prune=has_signature or (is_known and not database.key))
        before = digest
        if expected is not None and number == expected.number:
            seen = True
            if digest != expected.digest:
                problems.append(f"record {number} is not the one that was the head then: its digest is another")
    if database.key and number and not signed:
        problems.append("no record is signed with the key of the settings (history.key_file)")
    pruned = audited.pruned
    problems.extend(
        f"record {first} is missing: record {last.number + 1} stands in its place"
        for first, last in missing
        if last.number > pruned.number or (last.number == pruned.number and last.digest != pruned.digest)
    )
    if expected is not None and not seen and expected != pruned:
        where = (
            f"the chain ends at {number}" if expected.number > pruned.number else "it was pruned, so it shows nothing"
        )
        problems.append(f"record {expected.number} is missing: {where}")
    problems.extend(_changed_reviews(database, audited.reviews))
    problems.extend(_changed_answers(database, audited))
    problems.extend(bypasses.changed_rows(database))
    rest = len(problems) - _SHOWN
    listed = [*problems[:_SHOWN], f"and {rest} more"] if rest > 0 else problems
    return AuditCheck(Head(number, before), tuple(listed), pruned)


class _AuditedFacts:
    """What the records say of the rows: the latest of each review, the sessions that ended, and what was pruned."""

    def __init__(self) -> None:
        self.reviews: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, int] = {}
        self.pruned = Head(0, START)

    def note(self, body: str, *, may_prune: bool) -> None:
        """Take in one record; where there is a key, only one that it signed says what was pruned."""
        try:
            record = record_of(body)
        except ValueError:
            return  # _faults says so
        if review_rows.is_about_review(record):
            self.reviews[str(record.get("review"))] = record
        elif record.get("what") == "decision" and record.get("action") == "terminate_session":
            self.ended[digest_of(record.get("session_id"))] = int(record.get("number", 0))
        elif record.get("what") == PRUNED and may_prune and isinstance(through := record.get("through"), int):
            self.pruned = Head(through, str(record.get("digest")))


def _changed_answers(database: Database, audited: _AuditedFacts) -> Iterator[str]:
    """Yield answers that let an attempt through and that no record knows, and ended sessions that are open again."""
    allowed = "SELECT attempt, call, body FROM sg_rulings WHERE body LIKE ? AND NOT body LIKE ?"
    for row in database.read(allowed, '%"record": %', '%"record": 0}'):
        number = read_record(str(row[2])).get("record")
        if number and not _is_sealed_now(database, number, row):
            yield f"an answer of the gate is not what record {number} says: it was written past stream_guard"
    kept = {session for (session,) in database.read("SELECT session FROM sg_ended")}
    for session, number in audited.ended.items():
        if session not in kept and _is_there(database, number):
            yield f"record {number} ended a session, and its row was taken out"


def _is_sealed_now(database: Database, number: int, row: Row) -> bool:
    """Whether an answer is in order, or was replaced since it was read."""
    with database.transaction() as statements:
        now = statements.run("SELECT attempt, call, body FROM sg_rulings WHERE attempt = ?", row[0])
        return now != [row] or is_sealed(statements, number, seal_of(RULINGS, str(row[0]), row))


def _changed_reviews(database: Database, audited: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with the rows of reviews, by the latest records about them."""
    for row in review_rows.all_rows(database):
        name = str(row[0])
        record = audited.pop(name, None)
        sealed = None if record is None else record.get(SEAL)
        if sealed != seal_of(review_rows.TABLE, name, row) and not _is_genuine_now(database, name):
            where = "is in no record" if record is None else f"is not what record {record.get('number')} says"
            yield f"review {name} {where}: it was written past stream_guard"
    for name, record in audited.items():
        if not _is_genuine_now(database, name) and _is_there(database, int(record.get("number", 0))):
            yield f"review {name} was taken out: record {record.get('number')} tells of it"


def _is_there(database: Database, number: int) -> bool:
    """Whether a record is still in the chain: it may have been pruned, with its row, since it was read."""
    return bool(database.read("SELECT 1 FROM sg_audit WHERE number = ?", number))


def _is_genuine_now(database: Database, name: str) -> bool:
    """Whether a review is in order after all: it may have changed since its records were read."""
    with database.transaction() as statements:
        found = review_rows.find(statements, name)
        return found is not None and found[1]


def _named_before(body: str) -> str:
    """Return the digest that a record names as that of the record before it."""
    return str(read_record(body).get("previous"))


def _faults(number: int, body: str, before: str, *, is_known: bool) -> Iterator[str]:
    if not is_known:
        yield f"record {number} was changed, or signed with another key: its content does not have the digest noted"
    try:
        record = record_of(body)
        follows, own = record["previous"], record["number"]
    except (ValueError, KeyError):
        yield f"record {number} was changed: it is no record any more"
        return
    if own != number:
        yield f"record {number} was moved: it says that it is record {own}"
    if follows != before:
        yield f"record {number} does not follow record {number - 1}: one of the two was changed or replaced"
