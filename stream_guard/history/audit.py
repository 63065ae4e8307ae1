"""The audit: a chain of records. Each has the digest of the one before, so that a change can be detected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

import msgspec

from stream_guard.history.canonical import canonical
from stream_guard.history.database import Database, Statements
from stream_guard.model import Json

START: Final = "0" * 64  # the digest before the first record
_PAGE: Final = 1000
_SHOWN: Final = 20  # problems that are listed


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


class AuditCheck(msgspec.Struct, frozen=True):
    """The result of a check of the whole chain."""

    head: Head
    problems: tuple[str, ...]


def append(statements: Statements, what: str, time: float, entry: dict[str, Json]) -> Head:
    """Add a record at the end of the chain, inside a transaction."""
    last = head_of(statements)
    number = last.number + 1
    body = canonical({**entry, "what": what, "time": time, "number": number, "previous": last.digest})
    digest = sha256(body).hexdigest()
    statements.run("INSERT INTO sg_audit VALUES (?, ?, ?)", number, digest, body.decode())
    return Head(number, digest)


def head_of(statements: Statements) -> Head:
    """Return the last record's number and digest."""
    rows = statements.run("SELECT number, digest FROM sg_audit ORDER BY number DESC LIMIT 1")
    return Head(*rows[0]) if rows else Head(0, START)


def records(database: Database, after: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the records in order, each with its own digest added."""
    for _, digest, body in _rows(database, after):
        yield {**json.loads(body.removeprefix("~")), "digest": digest}


def verify(database: Database, expected: Head | None = None) -> AuditCheck:
    """Check the whole chain; a record that was changed, added, moved or removed is a problem with its number."""
    problems: list[str] = []
    before, number = START, 0
    seen = expected is None or expected.number == 0
    for number_found, digest, body in _rows(database):
        number += 1
        if number_found != number:
            problems.append(f"record {number} is missing: record {number_found} stands in its place")
            number = number_found
        problems.extend(_faults(number, digest, body, before))
        before = digest
        if expected is not None and number == expected.number:
            seen = True
            if digest != expected.digest:
                problems.append(f"record {number} is not the one that was the head then: its digest is another")
    if not seen:
        problems.append(f"record {expected.number if expected else 0} is missing: the chain ends at {number}")
    rest = len(problems) - _SHOWN
    listed = [*problems[:_SHOWN], f"and {rest} more"] if rest > 0 else problems
    return AuditCheck(Head(number, before), tuple(listed))


def _rows(database: Database, after: int = 0) -> Iterator[tuple[int, str, str]]:
    while True:
        page = database.read(
            "SELECT number, digest, body FROM sg_audit WHERE number > ? ORDER BY number LIMIT ?", after, _PAGE
        )
        for number, digest, body in page:
            yield number, digest, body
            after = number
        if len(page) < _PAGE:
            return


def _faults(number: int, digest: str, body: str, before: str) -> Iterator[str]:
    if sha256(body.encode("utf-8", "surrogatepass")).hexdigest() != digest:
        yield f"record {number} was changed: its content does not have the digest that was noted"
    try:
        record = json.loads(body.removeprefix("~"))
        follows, own = record["previous"], record["number"]
    except (ValueError, TypeError, KeyError):
        yield f"record {number} was changed: it is no record any more"
        return
    if own != number:
        yield f"record {number} was moved: it says that it is record {own}"
    if follows != before:
        yield f"record {number} does not follow record {number - 1}: one of the two was changed or replaced"
