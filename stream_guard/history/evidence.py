"""Evidence: what the history has of a period, as a file of chained lines that can be checked anywhere.

Each line is canonical JSON with the digest of the line before. The first says what the file is about, the last how many
lines of each sort there are. With the key of the history the last line is signed.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Final, Literal, TypeAlias

import msgspec

from stream_guard.history import chain, incidents, policies
from stream_guard.history.canonical import canonical
from stream_guard.history.database import Database
from stream_guard.history.records import from_text
from stream_guard.judge.model import Alert, Json

FORMAT: Final = "stream_guard evidence 1"
Sort: TypeAlias = Literal["header", "policy", "audit", "finding", "end"]
_PAGE: Final = 1000


class EvidencePeriod(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for: from when, until before when, and of which tenant; an empty tenant means all."""

    since: float
    until: float
    tenant: str = ""

    def covers(self, time: float) -> bool:
        """Whether a moment is in the period."""
        return self.since <= time < self.until


class EvidenceWriter:
    """Yields the lines of a file of evidence; ``head`` is the digest of the last, to be kept elsewhere."""

    def __init__(self, database: Database, period: EvidencePeriod) -> None:
        self._database = database
        self._period = period
        self.counts: Counter[str] = Counter()
        self.missing: set[str] = set()  # versions of policies that the history does not have
        self.pruned = 0  # the latest record that was pruned, where it was of the period or later
        self.head = chain.START

    def lines(self, exported: float) -> Iterator[bytes]:
        """Yield the file, line by line."""
        period = msgspec.to_builtins(self._period)
        yield self._line(
            "header", {"format": FORMAT, "exported": exported, "period": period, "signed": bool(self._database.key)}
        )
        versions: set[str] = set()
        for body in self._audit():
            versions.add(str(body.get("policy_version", "")))
            yield self._line("audit", {key: body[key] for key in body if key != "policy_version"})
        for found in self._findings():
            versions.add(found["alert"].get("policy_version", ""))
            yield self._line("finding", found)
        versions.discard("")
        known = set()
        for policy in self._policies(versions):
            known.add(policy.version)
            yield self._line("policy", msgspec.to_builtins(policy))
        self.missing = versions - known
        yield self._end()

    def _line(self, sort: Sort, body: dict[str, Json]) -> bytes:
        number = self.counts.total()
        self.counts[sort] += 1
        line = canonical({"number": number, "sort": sort, "previous": self.head, "body": body})
        self.head = sha256(line).hexdigest()
        return line + b"\n"

    def _end(self) -> bytes:
        body: dict[str, Json] = {"lines": dict(self.counts), "missing_policies": sorted(self.missing)}
        if self.pruned:
            body["pruned"] = self.pruned
        if key := self._database.key:
            body["signature"] = sign_end(key, self.head, body)
        return self._line("end", body)

    def _audit(self) -> Iterator[dict[str, Json]]:
        """Yield the records from the first of the period to the last. Those of other tenants are withheld."""
        ours = _TenantRecords(self._database, self._period.tenant)
        first, last = self._range()
        for number, digest, text in chain.chain_rows(self._database, first - 1):
            if number > last:
                return
            record = chain.record_of(text)
            if ours.include(record):
                version = record.get("policy_version", "")
                yield {"number": number, "digest": digest, "record": text, "policy_version": version}
            else:
                yield {"number": number, "digest": digest, "withheld": True}

    def _range(self) -> tuple[int, int]:
        """Return the first and the last record of the period: the chain between them is whole, whatever clocks said."""
        first, last = 1, 0
        for number, _, text in chain.chain_rows(self._database):
            record = chain.record_of(text)
            if record.get("what") == chain.PRUNED and record["until"] >= self._period.since:
                self.pruned = record["through"]
            if self._period.covers(float(record.get("time", 0.0))):
                first, last = (number if not last else first), number
        return first, last

    def _findings(self) -> Iterator[dict[str, Json]]:
        after = 0
        sql = "SELECT number, noted, body FROM sg_alerts WHERE number > ? ORDER BY number LIMIT ?"
        while rows := self._database.read(sql, after, _PAGE):
            for number, noted, text in rows:
                after = number
                if self._period.covers(noted):
                    alert = from_text(text, Alert)
                    if self._period.tenant in ("", alert.labels.get("tenant", "")):
                        yield {"number": number, "noted": noted, "alert": msgspec.to_builtins(alert)}

    def _policies(self, versions: set[str]) -> Iterator[policies.PolicyInForce]:
        """Yield the policies that judged in the period, and those that came into force in it."""
        for policy in policies.listing(self._database):
            if policy.version in versions or self._period.covers(policy.since):
                yield policy


class _TenantRecords:
    """Which records of the audit are a tenant's own: those that say so, by tenant, session or incident."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant
        self._prefix = f"{tenant.replace('%', '%25').replace('/', '%2F')}/"

    def include(self, record: dict[str, Json]) -> bool:
        if not self._tenant or record.get("what") == "policy_in_force":
            return True
        if "tenant" in record:
            return bool(record["tenant"] == self._tenant)
        if "session_id" in record:
            return str(record["session_id"]).startswith(self._prefix)
        name = str(record.get("incident", ""))
        return bool(name) and incidents.get(self._database, name, self._tenant) is not None


def sign_end(key: bytes, head: str, body: dict[str, Json]) -> str:
    """Return the signature in the last line: over the digest of the line before it, and what else it says."""
    said = canonical({name: value for name, value in body.items() if name != "signature"})
    return hmac.new(key, f"{FORMAT}\n{head}\n".encode() + said, sha256).hexdigest()
