"""A gate in the process of the test, asked as a proxy asks its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stream_guard.guard.gate import Gate
from stream_guard.history.database import SqliteDatabase
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry
from stream_guard.running.assembly import Assembly
from stream_guard.serve.own_gate import OwnGate
from stream_guard.serve.service import Service
from stream_guard.settings import Settings

REGISTRY = build_registry()
POLICY = """
rules:
  - {id: drop, kind: no_call, params: {tool: drop}, then: block, reason: drop is watched}
  - {id: pay, kind: no_call, params: {tool: pay}, then: pause, reason: pay is watched}
  - {id: leak, kind: no_call, params: {tool: leak}, then: terminate_session, reason: leak is watched}
  - {id: three, kind: max_calls, params: {tool: read, n: 3}, then: block}
  - {id: tools, kind: no_tool_change, params: {}, then: block}
  - {id: secret, kind: forbidden_text, params: {where: tool_result, pattern: hunter2}, then: block}
"""


@contextmanager
def own_gate(folder: Path, policy: str = POLICY) -> Iterator[tuple[OwnGate, Gate]]:
    """Open a gate over a history of its own."""
    database = SqliteDatabase(folder / "history.db")
    gate = Gate(load_policy(policy, REGISTRY), database)
    service = Service(gate)
    own = OwnGate(service, Assembly(Settings(), REGISTRY).make_decoder("native"))
    try:
        yield own, gate
    finally:
        own.close()
        service.close()
        database.close()
