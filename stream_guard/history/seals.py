"""Seals: a row that decides something is tied to the audit record that wrote it.

The record holds a digest of all columns of the row, and the row the number of the record. A row that was changed, or
put back to what it was before, does not have the seal of the latest record about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from stream_guard.history.canonical import digest_of
from stream_guard.history.chain import is_intact, record_of
from stream_guard.history.database import Statements, Value

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
