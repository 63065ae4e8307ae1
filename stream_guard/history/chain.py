"""The chain of the audit: records are appended, and each has the digest of the one before.

With a key, digests are HMACs: whoever can write the database, but does not have the key, cannot write a record.

Seals: a row that decides something is tied to the audit record that wrote it. The record holds a digest of all columns
of the row, and the row the number of the record. A row that was changed, or put back to what it was before, does not
have the seal of the latest record about it.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stream_guard.errors import StoreError
from stream_guard.history.database import Database, Statements, Value
from stream_guard.history.records import canonical, digest_of
from stream_guard.judge.model import Json

START: Final = "0" * 64  # the digest before the first record
PRUNED: Final = "history_pruned"  # the record of what was taken off the beginning of the chain
_PAGE: Final = 1000


class Head(msgspec.Struct, frozen=True):
    """Number and digest of the last record. A copy kept elsewhere shows when records were cut off the end."""

    number: int
    digest: str

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Return the head from the text that ``str`` gave, or raise ValueError."""
        number, colon, digest = text.strip().partition(":")
        if not (colon and number.isdecimal() and len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
            raise ValueError(f"{text[:100]!r} is no head of an audit; it looks like 12:<64 hexadecimal digits>")
        return cls(int(number), digest)


def append(statements: Statements, what: str, time: float, entry: dict[str, Json]) -> Head:
    """Add a record at the end of the chain, inside a transaction.

    StoreError when the record before is not signed with the key, or is and there is no key: what comes after would
    vouch for it, or break the chain.
    """
    _require_intact_end(statements)
    return _append(statements, what, time, entry)


def sign(statements: Statements, time: float) -> Head:
    """Begin to sign a chain that has records without a signature: what is there counts as it is."""
    return _append(statements, "audit_signed", time, {})


def _append(statements: Statements, what: str, time: float, entry: dict[str, Json]) -> Head:
    last = head_of(statements)
    number = last.number + 1
    body = canonical({**entry, "what": what, "time": time, "number": number, "previous": last.digest})
    digest = _digest(body, statements.key)
    statements.run("INSERT INTO sg_audit VALUES (?, ?, ?)", number, digest, body.decode())
    return Head(number, digest)


def _require_intact_end(statements: Statements) -> None:
    rows = statements.run("SELECT digest, body FROM sg_audit ORDER BY number DESC LIMIT 1")
    digest, body = rows[0] if rows else ("", "")
    if rows and not is_intact(digest, body, statements.key):
        key = "with the key of the settings (history.key_file)" if statements.key else "without a key"
        raise StoreError(
            f"the last record of the audit was not written {key}, so nothing is written after it; "
            "run: stream-guard audit verify, and to begin with a key: stream-guard audit sign"
        )


def _digest(body: bytes, key: bytes) -> str:
    return hmac.new(key, body, sha256).hexdigest() if key else sha256(body).hexdigest()


def head_of(statements: Statements) -> Head:
    """Return the last record's number and digest."""
    rows = statements.run("SELECT number, digest FROM sg_audit ORDER BY number DESC LIMIT 1")
    return Head(*rows[0]) if rows else Head(0, START)


def records(database: Database, after: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the records in order, each with its own digest added."""
    for _, digest, body in chain_rows(database, after):
        yield {**record_of(body), "digest": digest}


def chain_rows(database: Database, after: int = 0) -> Iterator[tuple[int, str, str]]:
    """Yield number, digest and body of the records in order."""
    while True:
        page = database.read(
            "SELECT number, digest, body FROM sg_audit WHERE number > ? ORDER BY number LIMIT ?", after, _PAGE
        )
        for number, digest, body in page:
            yield number, digest, body
            after = number
        if len(page) < _PAGE:
            return


def is_intact(digest: str, body: str, key: bytes = b"") -> bool:
    """Whether a record's content has the digest that was noted, made with the key."""
    return _digest(body.encode("utf-8", "surrogatepass"), key) == digest


def record_of(body: str) -> dict[str, Any]:
    """Return a record as it was written; ValueError when it is none."""
    record = json.loads(body.removeprefix("~"))
    if not isinstance(record, dict):
        raise ValueError("a record is an object")
    return record


SEAL: Final = "seal"  # the key of a record
# What a row is beside a record about it: sealed by a later one, or by this one and still counting, or over; or changed.
RowState: TypeAlias = Literal["later", "counts", "over", "changed"]
RULINGS: Final = "rulings"  # answers of the gate that let an attempt through


def seal_of(table: str, key: str, row: Sequence[Value]) -> dict[str, str]:
    """Return what the record about a row keeps of it; ``key`` is in hexadecimal digits."""
    return {"table": table, "key": key, "digest": digest_of(list(row))}


def is_sealed(statements: Statements, number: int, seal: dict[str, str]) -> bool:
    """Whether this record sealed the row as it is now, and no later one sealed it otherwise."""
    rows = statements.run("SELECT digest, body FROM sg_audit WHERE number = ?", number)
    if not rows:
        return False
    digest, body = rows[0]
    if not is_intact(digest, body, statements.key) or read_record(body).get(SEAL) != seal:
        return False
    # Rows that matter are young, so few records are later; this needs no index.
    later = statements.run(
        "SELECT body FROM sg_audit WHERE number > ? AND body LIKE ?", number, f'%"key":"{seal["key"]}"%'
    )
    return not any(is_about(read_record(body).get(SEAL), seal["table"], seal["key"]) for (body,) in later)


def is_about(found: Any, table: str, key: str) -> bool:
    """Whether a seal is the seal of this row."""
    return isinstance(found, dict) and (found.get("table"), found.get("key")) == (table, key)


def read_record(body: str) -> dict[str, Any]:
    """Return a record as it was written; one that is broken seals nothing, and verify reports it."""
    try:
        return record_of(body)
    except ValueError:
        return {}
