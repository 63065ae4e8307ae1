"""Policies that were in force: each change, with the whole policy, in the order in which they came."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stream_guard.history import chain
from stream_guard.history.database import Database
from stream_guard.history.records import digest_of, from_text, to_text
from stream_guard.judge.model import Json, resolved


@resolved
class PolicyInForce(msgspec.Struct, frozen=True, kw_only=True):
    """A policy, in its native form, and since when it was in force."""

    number: int
    version: str
    since: float
    policy: dict[str, Json]
    digest: str  # of the policy; the audit has it too


def note(database: Database, version: str, policy: dict[str, Json], time: float) -> bool:
    """Write down that this policy is in force from now on; one that was in force last changes nothing."""
    with database.transaction() as statements:
        rows = statements.run("SELECT number, version FROM sg_policies ORDER BY number DESC LIMIT 1")
        number, last = rows[0] if rows else (0, "")
        if last == version:
            return False
        digest = digest_of(policy)
        noted = PolicyInForce(number=number + 1, version=version, since=time, policy=policy, digest=digest)
        statements.run("INSERT INTO sg_policies VALUES (?, ?, ?, ?)", number + 1, version, time, to_text(noted))
        entry: dict[str, Json] = {"policy_version": version, "policy_digest": digest}
        chain.append(statements, "policy_in_force", time, entry)
    return True


def listing(database: Database) -> Iterator[PolicyInForce]:
    """Yield all of them, in order."""
    for (body,) in database.read("SELECT body FROM sg_policies ORDER BY number"):
        yield from_text(body, PolicyInForce)
