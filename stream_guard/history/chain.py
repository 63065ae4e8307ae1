"""The chain of the audit: records are appended, and each has the digest of the one before.

With a key, digests are HMACs: whoever can write the database, but does not have the key, cannot write a record.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

import msgspec

from stream_guard.errors import StoreError
from stream_guard.history.canonical import canonical
from stream_guard.history.database import Database, Statements
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
