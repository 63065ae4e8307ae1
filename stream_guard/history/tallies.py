"""Tallies: how often something was seen, in buckets of five minutes, for charts that cost little to draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from stream_guard.history.alert_rows import column
from stream_guard.history.database import Database, Statements, Value

What: TypeAlias = Literal["finding", "severity", "agent", "tool", "tool_error", "decision"]
Key: TypeAlias = tuple[What, str, str, int]  # what, name, tenant, bucket

WIDTH: Final = 300  # seconds of a bucket
KEPT: Final = 31 * 86_400  # seconds for which buckets are kept
OTHER: Final = "_other"  # stands for names beyond the limit: agents choose them
_NAMES: Final = 200


def bucket_of(time: float | None, now: float) -> int:
    """Return the bucket of an event's time, or of now where that time is no use: agents choose it."""
    moment = time if time is not None and now - KEPT < time <= now + WIDTH else now
    return int(moment // WIDTH)


class Tally:
    """Counts, and adds what was counted to the history at the next ``write``."""

    def __init__(self, names: Mapping[What, set[str]] | None = None) -> None:
        self._names: dict[What, set[str]] = {what: set(known) for what, known in (names or {}).items()}
        self._counts: Counter[Key] = Counter()

    def add(self, what: What, name: str, tenant: str, bucket: int) -> None:
        """Count one."""
        known = self._names.setdefault(what, set())
        name = column(name)
        if name not in known:
            if len(known) >= _NAMES:
                name = OTHER
            else:
                known.add(name)
        self._counts[what, name, column(tenant), bucket] += 1

    def write(self, statements: Statements) -> None:
        """Add everything that was counted since the last time."""
        for key, count in self._counts.items():
            statements.run(
                "INSERT INTO sg_tallies VALUES (?, ?, ?, ?, ?) ON CONFLICT (what, name, tenant, bucket) "
                "DO UPDATE SET count = sg_tallies.count + excluded.count",
                *key,
                count,
            )
        self._counts.clear()


def count_findings(statements: Statements, findings: Sequence[tuple[str, str, str, float | None]], now: float) -> None:
    """Count findings at once: rule, severity, tenant and time of each."""
    tally = Tally()
    for rule, severity, tenant, time in findings:
        bucket = bucket_of(time, now)
        tally.add("finding", rule, tenant, bucket)
        tally.add("severity", severity, tenant, bucket)
    tally.write(statements)


def known_names(database: Database) -> dict[What, set[str]]:
    """Return the names that are in the history already."""
    found: dict[What, set[str]] = {}
    for what, name in database.read("SELECT DISTINCT what, name FROM sg_tallies"):
        found.setdefault(what, set()).add(name)
    return found


def oldest_bucket(now: float) -> int:
    """Return the earliest bucket that is kept."""
    return int((now - KEPT) // WIDTH)


def series(
    database: Database, what: What, *, since: float, until: float, bars: int, tenant: str = ""
) -> dict[str, list[int]]:
    """Return how often each name was seen in each of ``bars`` equal spans, the most frequent name first."""
    first, last = int(since // WIDTH), int(until // WIDTH)
    mine: tuple[str, tuple[Value, ...]] = ("AND tenant = ?", (column(tenant),)) if tenant else ("", ())
    rows = database.read(
        f"SELECT name, (bucket - ?) * ? / ? AS bar, sum(count) FROM sg_tallies "  # noqa: S608  # no value is in it
        f"WHERE what = ? AND bucket >= ? AND bucket <= ? {mine[0]} GROUP BY name, bar",
        first,
        bars,
        max(1, last - first + 1),
        what,
        first,
        last,
        *mine[1],
    )
    found: dict[str, list[int]] = {}
    for name, bar, count in rows:
        found.setdefault(name, [0] * bars)[min(bars - 1, int(bar))] += int(count)
    return dict(sorted(found.items(), key=lambda item: (-sum(item[1]), item[0])))
