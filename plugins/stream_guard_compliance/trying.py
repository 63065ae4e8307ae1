"""Trying rules out: whether they fire in a trace, by the engine that judges real ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from stream_guard import Registry, build_registry, evaluate, parse_policy
from stream_guard_compliance.compiling.context import Form
from stream_guard_compliance.compiling.gates import is_note
from stream_guard_compliance.trace import read_trace

GREETING: Final = (
    {"type": "user_message", "content": "hi"},
    {"type": "agent_message", "content": "Hello!"},
)


@cache
def _registry() -> Registry:
    return build_registry()


def with_other_tools(events: Sequence[Any]) -> list[Any]:
    """Return a trace in which every call is one of a tool that no rule names."""
    found: list[Any] = []
    for event in events:
        calls = event.get("tool_calls")
        made = [{**call, "function": {"name": _OTHER, "arguments": _arguments(call)}} for call in _objects(calls)]
        found.append(
            {**event, **({"name": _OTHER} if "name" in event else {}), **({"tool_calls": made} if made else {})}
        )
    return found


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _arguments(call: dict[str, Any]) -> Any:
    inner = call.get("function")
    return inner.get("arguments") if isinstance(inner, dict) else None


_OTHER: Final = "tool_that_nobody_names"


def fires(rules: Sequence[Form], events: Sequence[Any]) -> bool:
    """Whether one of the rules fires in a trace; a trace that cannot be read shows nothing."""
    trace = read_trace(events)
    if trace.unreadable or not trace.events:
        return False
    named = [{**form, "id": f"r{number}"} for number, form in enumerate(rules)]
    policy = parse_policy(json.dumps({"name": "tried out", "rules": named}), _registry(), file="the proposed rules")
    judging = {f"r{number}" for number, form in enumerate(rules) if not is_note(form)}
    return any(
        finding.rule_id in judging and finding.kind != "rule_error" for finding in evaluate(trace.events, policy)
    )
