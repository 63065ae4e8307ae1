"""Sessions in few words for the tests of diff."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stream_guard_diff import Diff, diff

from stream_guard.judge.model import Event, Turn
from stream_guard.judge.spec import Policy
from stream_guard.registry import build_registry

AXES = build_registry().axes


def turn(text: str = "", *calls: tuple[str, Any], stop: str = "end_turn", latency: float = 100.0) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "name": name, "input": args} for name, args in calls]
    content = [{"type": "text", "text": text}, *blocks] if text else blocks
    return {"content": content, "stop_reason": stop, "latency_ms": latency, "usage": {"output_tokens": 5}}


def session(*turns: dict[str, Any], name: str = "s") -> list[Event]:
    return [
        Turn(session_id=name, event_id=f"{name}-{number}", request={"model": "m"}, response=response)
        for number, response in enumerate(turns)
    ]


def compared(old: Sequence[Event], new: Sequence[Event], policy: Policy | None = None) -> Diff:
    return diff(old, new, axes=AXES, policy=policy)


def severities(found: Diff) -> dict[str, str]:
    return {axis.name: axis.severity for axis in found.report.axes}
