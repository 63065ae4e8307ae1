"""Recorded answers in few words: which scenario, which prompt, what was said, and what happened on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from stream_guard_contract.document import Contract, load_contract
from stream_guard_contract.recording import PROMPT, SCENARIO
from stream_guard_contract.scoring.matrix import Cell, Matrix
from stream_guard_contract.scoring.score import score

from stream_guard.judge.model import Event, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.registry import Registry, build_registry

Data = dict[str, Any]


@cache
def registry() -> Registry:
    """What is installed."""
    return build_registry()


def contract(*invariants: Data, matrix: Sequence[Data] = ({"name": "calm"},), **more: Any) -> Contract:
    """Return a contract of these invariants; an id is the number of the invariant where it has none."""
    numbered = [{"id": str(number), **one} for number, one in enumerate(invariants)]
    data = {"contract": {"name": "test", "invariants": numbered, "chaos_matrix": list(matrix)}, **more}
    return load_contract(json.dumps(data), registry(), file="flakestorm.json")


def answered(
    text: str,
    scenario: str = "calm",
    prompt: str = "p",
    *,
    labels: Mapping[str, str] | None = None,
    tools: Sequence[tuple[str, Any]] = (),
    error: str = "",
    **response: Any,
) -> list[Event]:
    """Return a session: the prompt, calls of tools with the status of each, and the answer."""
    name = f"{scenario}/{prompt}"
    said = {SCENARIO: scenario, PROMPT: prompt, **(labels or {})}
    events: list[Event] = [UserMessage(session_id=name, event_id="ask", text=prompt, labels=said)]
    for number, (tool, status) in enumerate(tools):
        call_id = f"c{number}"
        events.append(ToolCall(session_id=name, event_id=f"call{number}", tool=tool, call_id=call_id, args={}))
        events.append(
            ToolResult(session_id=name, event_id=f"result{number}", tool=tool, call_id=call_id, status=status)
        )
    content = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "latency_ms": 5.0}
    failure = {"stop_reason": "error", "error": error} if error else {}
    events.append(Turn(session_id=name, event_id="answer", response={**content, **failure, **response}))
    return events


def matrix_of(promise: Contract, *sessions: Sequence[Event]) -> Matrix:
    """Return the matrix of the sessions."""
    return score(promise, [event for session in sessions for event in session], registry())


def only(promise: Contract, *sessions: Sequence[Event]) -> Cell:
    """Return the only cell of the matrix."""
    (cell,) = matrix_of(promise, *sessions).cells
    return cell
