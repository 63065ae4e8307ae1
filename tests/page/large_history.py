"""A history of a million findings, and how long its lists take."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

from stream_guard.history.alert_rows import session_key
from stream_guard.history.records import to_text
from stream_guard.judge.model import Alert
from tests.page.house import House

FINDINGS, INCIDENTS = 1_000_000, 200_000
SEVERITIES = ("info", "info", "info", "warning", "error")
LISTS = (
    "/", "/?severity=critical", "/?severity=error", "/?rule=r3", "/?rule=none", "/?agent=a2&rule=r3",
    "/?agent=none&rule=r3&severity=error", "/?q=number+x500", "/?q=nothing+like+it", "/?session=s77",
    f"/?before={FINDINGS // 2}", "/sessions", "/sessions/s77", "/incidents", "/incidents?status=solved",
    "/incidents?status=all", "/reviews", "/rules", "/rules?span=30d", "/activity", "/alerts/x500000",
)  # fmt: skip


def fill(folder: Path) -> None:
    """Write the rows as the history would, all at once."""
    sessions = [f"s{number}" for number in range(5000)]
    keys = [session_key(session) for session in sessions]
    body = to_text(
        Alert(
            alert_id="@id",
            rule_id="@rule",
            kind="no_call",
            severity="@severity",
            session_id="@session",
            event_id="e1",
            index=3,
            time=1.8e9,
            detail="a tool was called that nobody may call, number @id",
            policy_version="0123456789abcdef",
            evidence={"tool": "wipe", "arguments": "x" * 200},
            agent="@agent",
        )
    )

    def row(number: int) -> tuple[object, ...]:
        rule, agent, session = f"r{number % 20}", f"a{number % 7}", number % 5000
        severity = SEVERITIES[number % 5]
        told = body.replace("@id", f"x{number}").replace("@rule", rule).replace("@severity", severity)
        told = told.replace("@session", sessions[session]).replace("@agent", agent)
        level = ("info", "warning", "error").index(severity)
        return number, f"x{number}", keys[session], rule, level, agent, "", 1.8e9 + number, told

    def incident(number: int) -> tuple[object, ...]:
        name, status = f"{number:016x}", "solved" if number % 3 else "unresolved"
        told: dict[str, object] = {
            "id": name,
            "session_id": "s1",
            "rule_id": "r1",
            "severity": "error",
            "status": status,
        }
        told |= {"opened": 1.8e9 + number, "policy_version": "v", "findings": 5}
        return name, status, 1.8e9 + number, json.dumps(told)

    with sqlite3.connect(folder / "history.db") as database:
        database.execute("PRAGMA synchronous = OFF")
        marks = ", ".join("?" * 9)
        database.executemany(f"INSERT INTO sg_alerts VALUES ({marks})", map(row, range(1, FINDINGS + 1)))
        database.executemany("INSERT INTO sg_incidents VALUES (?, ?, ?, ?)", map(incident, range(INCIDENTS)))
        buckets = range(int(time.time() // 300) - 8000, int(time.time() // 300))
        counted = [("finding", f"r{rule}", "", bucket, 5) for rule in range(20) for bucket in buckets]
        database.executemany("INSERT INTO sg_tallies VALUES (?, ?, ?, ?, ?)", counted)
    database.close()


def seconds(house: House, path: str) -> float:
    """Return the processor time that a page takes at best: other work on the machine only ever adds to it."""
    house.get(path)
    times = []
    for _ in range(3):
        began = time.process_time()
        house.get(path)
        times.append(time.process_time() - began)
    return min(times)
