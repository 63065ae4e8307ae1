"""Reviews as rows of the history. Every change is an audit record that seals the row (see ``seals``).

A row that was changed past stream_guard counts for nothing: it lets nothing through, nobody can answer it, and it is
left as it is, for ``audit verify`` to find.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stream_guard.history import chain
from stream_guard.history.chain import SEAL, RowState, is_sealed, seal_of
from stream_guard.history.database import Database, Row, Statements, Value
from stream_guard.history.records import digest_of, from_text, to_text
from stream_guard.judge.model import Json, resolved

Kind: TypeAlias = Literal["anomaly_review", "anomaly_alert"]
Status: TypeAlias = Literal["open", "approved", "rejected", "expired", "used", "void", "acknowledged"]

TABLE: Final = "reviews"
_COLUMNS: Final = "id, kind, status, opened, expires, binding, attempt, body"
_PAGE: Final = 500
_logger = logging.getLogger(__name__)


@resolved
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
    arguments: Json = None  # in full, masked only where the policy says so; the digest is of what will run
    incident: str = ""
    expires: float | None = None
    decided: float | None = None
    by: str = ""
    note: str = ""
    agent_path: tuple[str, ...] = ()
    parse_error: bool = False  # the arguments could not be read, and are the text that the model wrote
    tenant: str = ""
    via: str = ""  # how it is known who answered: by a token, by an account, or by their word
    approvals: tuple[str, ...] = ()  # who said yes so far, where more than one person has to
    record: int = 0  # the number of the audit record that seals this row


def binding_of(session_id: str, tool: str, arguments_digest: str, policy_version: str) -> str:
    """Return the digest of the one question that an approval answers."""
    return digest_of([session_id, tool, arguments_digest, policy_version])


def call_key_of(session_id: str, call_id: str) -> str:
    """Return the digest of a call's session and id; empty when the source gives no id."""
    return digest_of([session_id, call_id]) if call_id else ""


def insert(statements: Statements, review: Review) -> Review:
    """Write a new review, and the record of it."""
    review, row = _next(statements, review)
    statements.run("INSERT INTO sg_reviews VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *row)
    return _record(statements, "opened", review.opened, review, row)


def update(statements: Statements, review: Review, now: float, what: str = "") -> Review:
    """Write a review that has changed, and the record of it; ``what`` stands for the status in its name."""
    review, row = _next(statements, review)
    statements.run(
        "UPDATE sg_reviews SET status = ?, expires = ?, body = ? WHERE id = ?", row[2], row[4], row[7], row[0]
    )
    return _record(statements, what or review.status, now, review, row)


def find(statements: Statements, name: str) -> tuple[Review, bool] | None:
    """Return the review of an id, and whether its row is as stream_guard wrote it; None when there is none."""
    if not (name.isascii() and name.isalnum()):
        return None
    rows = statements.run(f"SELECT {_COLUMNS} FROM sg_reviews WHERE id = ?", name)  # noqa: S608  # no value is in it
    review = _review(rows[0]) if rows else None
    return (review, is_genuine(statements, rows[0])) if review is not None else None


def status_of(database: Database, name: str) -> str | None:
    """Return the status of a review as its row has it, None when there is none; nothing may be let through by it."""
    rows = database.read("SELECT status FROM sg_reviews WHERE id = ?", name) if name.isascii() else []
    return str(rows[0][0]) if rows else None


def select(statements: Statements, rest: str, *values: Value) -> Iterator[Review]:
    """Yield the reviews of a query that are as stream_guard wrote them; the others are said in the log."""
    for row in statements.run(f"SELECT {_COLUMNS} FROM sg_reviews {rest}", *values):  # noqa: S608  # no value is in it
        review = _review(row)
        if review is not None and is_genuine(statements, row):
            yield review
        else:
            _logger.error("review %s was changed outside stream_guard and does not count; see audit verify", row[0])


def open_about(statements: Statements, incident: str) -> list[Review]:
    """Return the open reviews that ask whether an incident has been seen."""
    rows = "WHERE status = 'open' AND kind = 'anomaly_alert' AND body LIKE ?"
    return [review for review in select(statements, rows, f"%{incident}%") if review.incident == incident]


def waiting(statements: Statements, session_id: str) -> list[Review]:
    """Return the attempts of a session that wait for a person; nothing may be let through by it."""
    rows = statements.run(f"SELECT {_COLUMNS} FROM sg_reviews WHERE status = 'open' AND kind = 'anomaly_review'")  # noqa: S608  # no value is in it
    found = (_review(row) for row in rows)
    return [review for review in found if review is not None and review.session_id == session_id]


def listing(statements: Statements, status: Status | None, tenant: str, limit: int) -> list[Review]:
    """Return reviews, the latest first; with a tenant, only that tenant's."""
    where, values = ("WHERE status = ?", (status,)) if status else ("", ())
    sql = f"SELECT {_COLUMNS} FROM sg_reviews {where} ORDER BY opened DESC, id LIMIT ? OFFSET ?"  # noqa: S608  # no value is in it
    found: list[Review] = []
    for start in range(0, 2**62, _PAGE):
        page = [_review(row) for row in statements.run(sql, *values, _PAGE, start)]
        found += [review for review in page if review is not None and tenant in ("", review.tenant)]
        if len(found) >= limit or len(page) < _PAGE:
            break
    return found[:limit]


def is_genuine(statements: Statements, row: Row) -> bool:
    """Whether a row is what the latest audit record about it says."""
    review = _review(row)
    if review is None:
        return False
    return is_sealed(statements, review.record, seal_of(TABLE, str(row[0]), row))


def state_at(statements: Statements, name: str, record: dict[str, Any], before: float) -> RowState:
    """Return what the row of a review is beside a record about it. A person's no counts until it is from before."""
    rows = statements.run(f"SELECT {_COLUMNS} FROM sg_reviews WHERE id = ?", name)  # noqa: S608  # no value is in it
    review = _review(rows[0]) if rows else None
    if review is None:
        return "changed"
    if review.record > record["number"]:
        return "later"
    if record.get(SEAL) != seal_of(TABLE, name, rows[0]):
        return "changed"
    is_no = review.status == "rejected" and (review.decided or review.opened) >= before
    return "counts" if is_no or review.status in ("open", "approved") else "over"


def seal_anew(statements: Statements, name: str, now: float) -> None:
    """Seal the row of a review by a record of now: the one that sealed it goes."""
    [row] = statements.run(f"SELECT {_COLUMNS} FROM sg_reviews WHERE id = ?", name)  # noqa: S608  # no value is in it
    update(statements, from_text(row[7], Review), now, "kept")


def is_about_review(record: dict[str, Any]) -> bool:
    """Whether an audit record tells of a change of a review."""
    return str(record.get("what", "")).startswith("review_")


def all_rows(database: Database) -> Iterator[Row]:
    """Yield all rows, with all their columns."""
    after = ""
    while True:
        page = database.read(
            f"SELECT {_COLUMNS} FROM sg_reviews WHERE id > ? ORDER BY id LIMIT ?",  # noqa: S608  # no value is in it
            after,
            _PAGE,
        )
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1][0]


def _review(row: Row) -> Review | None:
    """Return the review in a row; None where somebody has made something else of it."""
    try:
        return from_text(row[7], Review)
    except (ValueError, TypeError, RecursionError):
        return None


def _next(statements: Statements, review: Review) -> tuple[Review, Row]:
    """Return the review with the number of the record that comes next, and its row."""
    numbered = msgspec.structs.replace(review, record=chain.head_of(statements).number + 1)
    columns = (numbered.id, numbered.kind, numbered.status, numbered.opened, numbered.expires)
    return numbered, (*columns, *_derived(numbered), to_text(numbered))


def _derived(review: Review) -> tuple[str, str]:
    """Return the columns that attempts are found by; an alert has none."""
    if review.kind == "anomaly_alert":
        return "", ""
    binding = binding_of(review.session_id, review.tool, review.arguments_digest, review.policy_version)
    return binding, call_key_of(review.session_id, review.call_id)


def _record(statements: Statements, what: str, time: float, review: Review, row: Row) -> Review:
    chain.append(statements, f"review_{what}", time, {**_audited(review), SEAL: seal_of(TABLE, review.id, row)})
    return review


def _audited(review: Review) -> dict[str, Any]:
    """Return what the audit records of a review; of the arguments, only the digest."""
    kept = ("kind", "session_id", "tool", "call_id", "arguments_digest", "policy_version", "by", "via", "note")
    return {
        "review": review.id,
        "rule_ids": list(review.rule_ids),
        **{name: value for name in (*kept, "incident", "tenant") if (value := getattr(review, name))},
    }
