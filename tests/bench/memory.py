"""Memory of sessions that are open and idle, with 20 stateful rules."""

from __future__ import annotations

import json
import multiprocessing
import resource
from typing import Any

from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Finding, ToolCall, Turn
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.settings import SessionLimits
from stream_guard.storage.stores import MemoryStore


def measure() -> dict[str, Any]:
    """Return bytes per session for 100,000 and for a million open sessions, each in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    rows = {}
    for sessions in (100_000, 1_000_000):
        with spawn.Pool(1) as pool:
            rows[str(sessions)] = pool.apply(_fill, (sessions,))
    return rows


def _policy() -> Policy:
    rules: list[dict[str, Any]] = []
    for number in range(5):
        rules += [
            {"kind": "must_call_before", "params": {"first": "lookup", "second": f"pay_{number}"}},
            {"kind": "must_call_once", "params": {"tool": f"greet_{number}"}},
            {"kind": "max_total_tokens", "params": {"n": 1000 + number}},
            {"kind": "must_remain_consistent", "params": {"path": "tool.args.account"}},
        ]
    listed = [{"id": f"rule-{number}", **rule} for number, rule in enumerate(rules)]
    return load_policy(json.dumps({"rules": listed}), build_registry(), file="memory.json")


def _fill(sessions: int) -> dict[str, float]:
    counts, found = Counts(), list[Finding]()
    store = MemoryStore()
    table = Judge(
        _policy(), SessionLimits(max_live=2 * sessions, in_memory=1000), mode="stream", store=store, counts=counts
    )
    before = _resident()
    usage = {"usage": {"input_tokens": 10, "output_tokens": 5}}
    for number in range(sessions):
        name = f"session-{number:08d}"
        time = 1_767_600_000.0 + number / 1000
        found += table.feed(Turn(session_id=name, event_id=f"{name}-1", time=time, response=usage)).findings
        call = ToolCall(session_id=name, event_id=f"{name}-2", time=time, tool="lookup", args={"account": f"{number}"})
        found += table.feed(call).findings
        if number % 1000 == 0:
            table.commit()
    table.commit()
    blob = store.get("session-00000001") or b""
    return {"resident_bytes_per_session": (_resident() - before) / sessions, "stored_bytes_per_session": len(blob)}


def _resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
