"""Sample sessions as records of a topic, and the alerts of `check` for them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stream_guard.demo.sessions import BAD, sample_events
from tests import processes
from tests.kafka.cluster import Row


def sample_rows(sessions: int, *, open_every: int = 0) -> list[Row]:
    """The events of sample sessions as records of a topic; all sessions end, or some are left without their end."""
    events = list(sample_events(sessions))
    if open_every:
        left = {f"refund-{number:05d}" for number in range(0, sessions, open_every)}
        events = [event for event in events if event["kind"] != "session_end" or event["session_id"] not in left]
    else:
        ended = {event["session_id"] for event in events if event["kind"] == "session_end"}
        last = {event["session_id"]: event for event in events if event["session_id"] not in ended}
        events += [
            {"kind": "session_end", "event_id": f"{name}-end", "session_id": name, "time": event["time"] + 1.0}
            for name, event in last.items()
        ]
    return [as_row(event) for event in events]


def labels(sessions: int, policy: Path) -> set[tuple[str, str]]:
    """The rules that sample sessions break, by their scripts: session and rule."""
    rules = re.findall(r"- id: (\S+)", policy.read_text())
    bad = {number: BAD[number // 4 % len(BAD)].__doc__ or "" for number in range(3, sessions, 4)}
    return {(f"refund-{number:05d}", rule) for number, breaks in bad.items() for rule in rules if rule in breaks}


def as_row(event: dict[str, Any]) -> Row:
    """An event under its session's id."""
    return Row(json.dumps(event).encode(), event["session_id"].encode())


def checked(rows: Sequence[Row], policy: Path) -> dict[str, str]:
    """The alerts of `check` for the records: ids, and the rule of each."""
    file = policy.with_name("checked.jsonl")
    file.write_bytes(b"\n".join(row.value or b"" for row in rows) + b"\n")
    command = ["check", file, "--policy", policy, "--format", "jsonl", "--fail-on", "none"]
    done = processes.run(*command, fresh=True)
    assert done.returncode == 0, done.stderr.decode()
    alerts = [json.loads(line) for line in done.stdout.splitlines()]
    return {alert["alert_id"]: alert["rule_id"] for alert in alerts}
