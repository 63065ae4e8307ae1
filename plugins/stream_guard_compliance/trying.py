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
