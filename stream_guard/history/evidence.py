"""Evidence: what the history has of a period, as a file of chained lines that can be checked anywhere.

Each line is canonical JSON with the digest of the line before. The first says what the file is about, the last how many
lines of each sort there are. With the key of the history the last line is signed. To check a file takes no history, and
no network.
"""

from __future__ import annotations

import hmac
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stream_guard.history import chain, incidents, policies
from stream_guard.history.chain import START, is_intact, record_of
from stream_guard.history.database import Database
from stream_guard.history.records import canonical, digest_of, from_text
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


_SHOWN: Final = 20  # problems that are listed


class EvidenceResult(msgspec.Struct, frozen=True):
    """What a check found."""

    head: str  # digest of the last line
    counts: dict[str, int]
    problems: tuple[str, ...]
    remarks: tuple[str, ...]  # what could not be checked


def check_evidence(lines: Iterable[bytes], *, key: bytes = b"", head: str = "") -> EvidenceResult:
    """Check every line, the chain of lines, and the chain of the audit inside it.

    ``head`` is what the export printed: without it, or a signature that ``key`` fits, a file that was written anew as a
    whole looks like any other.
    """
    check = _Check(key)
    for line in lines:
        check.take(line)
    check.finish(head)
    rest = len(check.problems) - _SHOWN
    listed = [*check.problems[:_SHOWN], f"and {rest} more"] if rest > 0 else check.problems
    return EvidenceResult(check.digest, dict(check.counts), tuple(listed), tuple(check.remarks))


class _Check:
    def __init__(self, key: bytes) -> None:
        self.digest = START
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.remarks: list[str] = []
        self._key = key
        self._before = START  # digest of the line before the last
        self._lines = 0
        self._number = 0  # that the next line should have
        self._ended = False
        self._audit: tuple[int, str] | None = None  # number and digest of the last record
        self._unchecked = 0
        self._signed = False  # whether the file says that there was a key

    def take(self, raw: bytes) -> None:
        """Take in the next line."""
        self._lines += 1
        where = f"line {self._lines}"
        if not raw.endswith(b"\n"):
            self.problems.append(f"{where} is cut off")
        line = raw.removesuffix(b"\n")
        self._before, previous = self.digest, self.digest
        self.digest = sha256(line).hexdigest()
        try:
            record = json.loads(line.removeprefix(b"~"))
            number, sort, body, names = record["number"], record["sort"], record["body"], record["previous"]
        except (ValueError, KeyError, TypeError, RecursionError):
            self.problems.append(f"{where} is no line of evidence")
            self._number += 1
            return
        if self._ended:
            self.problems.append(f"{where} stands behind the end")
        if type(number) is not int or number != self._number:
            shown = f"{where} is number {number!r:.20} of the export, where {self._number} should stand"
            self.problems.append(f"{shown}: lines were taken out, added or moved")
        elif names != previous:
            self.problems.append(f"{where} does not follow line {self._lines - 1}: one of the two was changed")
        # From the number that stands there: a line that is missing is one problem, not one for every line behind it.
        self._number = (number if type(number) is int else self._number) + 1
        try:
            self.problems.extend(f"{where}: {problem}" for problem in self._body(number, sort, body))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            self.problems.append(f"{where} lacks what a line of its sort has")
        self.counts[str(sort)] += 1

    def finish(self, head: str) -> None:
        """Say what only the whole file shows."""
        if not self._ended:
            self.problems.append("the end is missing: the file was cut off")
        if head and head != self.digest:
            self.problems.append(f"the head is {self.digest}, not the one that was noted at the export")
        if self._unchecked:
            self.remarks.append(
                f"{self._unchecked} records of the audit are signed, or withheld: their digests were not checked"
            )

    def _body(self, number: int, sort: str, body: dict[str, Any]) -> Iterator[str]:
        if (sort == "header") != (number == 0):
            yield "the header stands first, and nowhere else"
        if sort == "header":
            self._signed = bool(body["signed"])
            if body["format"] != FORMAT:
                yield f"the format is {str(body['format'])[:60]!r}; this is {FORMAT!r}"
        elif sort == "audit":
            yield from self._record(body)
        elif sort == "policy" and digest_of(body["policy"]) != body["digest"]:
            yield "the policy does not have its digest"
        elif sort == "end":
            yield from self._end(body)

    def _record(self, body: dict[str, Any]) -> Iterator[str]:
        number, digest = body["number"], body["digest"]
        expected = self._audit
        self._audit = (number, digest)
        if expected is not None and number != expected[0] + 1:
            yield f"record {number} of the audit does not follow record {expected[0]}"
        if body.get("withheld"):
            self._unchecked += 1
            return
        text = body["record"]
        record = record_of(text)
        if record["number"] != number:
            yield f"record {number} of the audit says that it is another"
        if expected is not None and record["previous"] != expected[1]:
            yield f"record {number} of the audit does not name the digest of the one before"
        if not is_intact(digest, text) and not (self._key and is_intact(digest, text, self._key)):
            if self._key or not self._signed:
                yield f"record {number} of the audit does not have its digest"
            self._unchecked += 1

    def _end(self, body: dict[str, Any]) -> Iterator[str]:
        self._ended = True
        if Counter(body["lines"]) != self.counts:
            yield f"the file has {dict(self.counts)}, and was exported with {body['lines']}"
        signature = body.get("signature", "")
        if self._key and not hmac.compare_digest(str(signature), sign_end(self._key, self._before, body)):
            yield "the signature was not made with this key"
        if not self._key:
            remark = "the file is signed; give --key-file to check that" if signature else "the file is not signed"
            self.remarks.append(remark)
        if body.get("pruned"):
            self.remarks.append(f"record {body['pruned']} of the audit and those before it had been pruned by then")
        if body.get("missing_policies"):
            listed = ", ".join(map(str, body["missing_policies"]))
            self.remarks.append(f"the history did not have these policies: {listed}")
