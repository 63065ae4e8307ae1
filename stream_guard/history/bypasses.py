"""Bypasses: for a limited time, attempts of one shape need no person. Who granted it, and each use, is in the audit.

A bypass is made from a review that a person has seen. It covers the same rules, tool, agent, policy and shape of
arguments, in the same tenant. Its row is sealed: one that was written past stream_guard lets nothing through.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any, Final

import msgspec

from stream_guard.history import chain
from stream_guard.history.chain import SEAL, RowState, is_sealed, seal_of
from stream_guard.history.database import Database, Row, Statements
from stream_guard.history.records import AnswerRefusedError, from_text, to_text
from stream_guard.history.review_rows import Review
from stream_guard.judge.model import Json, resolved

TABLE: Final = "bypasses"
_MOST: Final = 50  # at once
_DEPTH: Final = 4
_logger = logging.getLogger(__name__)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Who grants a bypass, why, and for how long."""

    by: str
    note: str
    seconds: float
    via: str = ""
    tenant: str = ""


@resolved
class Bypass(msgspec.Struct, frozen=True, kw_only=True):
    """What needs no person until it expires."""

    id: str
    rule_ids: tuple[str, ...]
    tool: str
    agent: str
    shape: str
    policy_version: str
    opened: float
    expires: float
    by: str
    note: str
    review: str  # the one that it was made from
    tenant: str = ""
    via: str = ""
    record: int = 0  # the number of the audit record that seals this row


def shape_of(value: Json, depth: int = 0) -> str:
    """Return the shape of arguments: names and types, without values."""
    if isinstance(value, dict):
        if depth >= _DEPTH:
            return "{…}"
        return "{" + ", ".join(f"{key}: {shape_of(value[key], depth + 1)}" for key in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        shapes = sorted({shape_of(item, depth + 1) for item in value}) if depth < _DEPTH else ["…"]
        return f"[{' | '.join(shapes)}]"
    return _TYPES.get(type(value), "text")


_TYPES: Final = {bool: "yes or no", int: "number", float: "number", type(None): "nothing", str: "text"}


def insert(statements: Statements, review: Review, grant: Grant, now: float) -> Bypass:
    """Open a bypass for attempts like the one of the review; AnswerRefusedError when there are too many."""
    [(count,)] = statements.run("SELECT count(*) FROM sg_bypasses WHERE expires > ?", now)
    if count >= _MOST:
        raise AnswerRefusedError(f"{count} bypasses are open already; end some of them")
    bypass = Bypass(
        id=secrets.token_hex(8),
        rule_ids=review.rule_ids,
        tool=review.tool,
        agent=review.agent,
        shape=shape_of(review.arguments),
        policy_version=review.policy_version,
        opened=now,
        expires=now + grant.seconds,
        by=grant.by,
        note=grant.note,
        review=review.id,
        tenant=review.tenant,
        via=grant.via,
    )
    bypass, row = _next(statements, bypass)
    statements.run("INSERT INTO sg_bypasses VALUES (?, ?, ?)", *row)
    _record(statements, "opened", now, bypass, row, grant.by)
    return bypass


def end(database: Database, name: str, *, by: str, now: float, tenant: str = "") -> Bypass:
    """End a bypass now; AnswerRefusedError when there is none that is open."""
    with database.transaction(durable=True) as statements:
        found = next((one for one in _open(statements, now) if one.id == name and tenant in ("", one.tenant)), None)
        if found is None:
            raise AnswerRefusedError(f"there is no open bypass {name[:40]!r}", missing=True)
        return _update(statements, "ended", now, msgspec.structs.replace(found, expires=now), by)


def covering(statements: Statements, review: Review, arguments: Json, now: float) -> Bypass | None:
    """Return the bypass that covers what a review would ask, or None."""
    rows = statements.run("SELECT 1 FROM sg_bypasses WHERE expires > ? LIMIT 1", now)
    if not rows:
        return None
    shape = shape_of(arguments)
    for bypass in _open(statements, now):
        if (
            set(review.rule_ids) <= set(bypass.rule_ids)
            and (bypass.tool, bypass.agent, bypass.shape) == (review.tool, review.agent, shape)
            and (bypass.policy_version, bypass.tenant) == (review.policy_version, review.tenant)
        ):
            return bypass
    return None


def active(database: Database, now: float, tenant: str = "") -> list[Bypass]:
    """Return the open bypasses, the one that ends first first."""
    with database.transaction() as statements:
        return [bypass for bypass in _open(statements, now) if tenant in ("", bypass.tenant)]


def state_at(statements: Statements, name: str, record: dict[str, Any], before: float) -> RowState:
    """Return what the row of a bypass is beside a record about it; it counts until it ends."""
    del before
    rows = statements.run("SELECT id, expires, body FROM sg_bypasses WHERE id = ?", name)
    bypass = _bypass(rows[0]) if rows else None
    if bypass is not None and bypass.record > record["number"]:
        return "later"
    if bypass is None or record.get(SEAL) != seal_of(TABLE, name, rows[0]):
        return "changed"
    return "counts" if bypass.expires > statements.time() else "over"


def seal_anew(statements: Statements, name: str, now: float) -> None:
    """Seal the row of a bypass by a record of now: the one that sealed it goes."""
    [(body,)] = statements.run("SELECT body FROM sg_bypasses WHERE id = ?", name)
    bypass = from_text(body, Bypass)
    _update(statements, "kept", now, bypass, bypass.by)


def changed_rows(database: Database) -> list[str]:
    """Return what is wrong with rows of bypasses, whether they are open or not."""
    problems: list[str] = []
    if not database.read("SELECT 1 FROM sg_bypasses LIMIT 1"):
        return problems
    with database.transaction() as statements:
        for row in statements.run("SELECT id, expires, body FROM sg_bypasses ORDER BY id"):
            bypass = _bypass(row)
            if bypass is None or not is_sealed(statements, bypass.record, seal_of(TABLE, str(row[0]), row)):
                problems.append(
                    f"bypass {str(row[0])[:40]} is not what the audit says: it was written past stream_guard"
                )
    return problems


def _open(statements: Statements, now: float) -> list[Bypass]:
    found = []
    for row in statements.run("SELECT id, expires, body FROM sg_bypasses WHERE expires > ? ORDER BY expires, id", now):
        bypass = _bypass(row)
        if bypass is not None and is_sealed(statements, bypass.record, seal_of(TABLE, str(row[0]), row)):
            found.append(bypass)
        else:
            _logger.error("a bypass was written outside stream_guard and does not count; see audit verify")
    return found


def _bypass(row: Row) -> Bypass | None:
    try:
        return from_text(row[2], Bypass)
    except (ValueError, TypeError, RecursionError):
        return None


def _next(statements: Statements, bypass: Bypass) -> tuple[Bypass, Row]:
    numbered = msgspec.structs.replace(bypass, record=chain.head_of(statements).number + 1)
    return numbered, (numbered.id, numbered.expires, to_text(numbered))


def _update(statements: Statements, what: str, now: float, bypass: Bypass, by: str) -> Bypass:
    bypass, row = _next(statements, bypass)
    statements.run("UPDATE sg_bypasses SET expires = ?, body = ? WHERE id = ?", row[1], row[2], row[0])
    _record(statements, what, now, bypass, row, by)
    return bypass


def _record(statements: Statements, what: str, now: float, bypass: Bypass, row: Row, by: str) -> None:
    entry: dict[str, Json] = {
        "bypass": bypass.id,
        "rule_ids": list(bypass.rule_ids),
        "tool": bypass.tool,
        "shape": bypass.shape,
        "expires": bypass.expires,
        "review_of": bypass.review,
        "by": by,
        "via": bypass.via,
        "note": bypass.note,
        SEAL: seal_of(TABLE, bypass.id, row),
    }
    chain.append(statements, f"bypass_{what}", now, entry)
