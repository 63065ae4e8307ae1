"""Over the longest sessions that were recorded, every kind's state stays under its bound; without them it skips."""

from __future__ import annotations

import gzip
import os
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

import stream_guard as sg
from stream_guard.judge.judge import Judge
from stream_guard.judge.rule import RuleType
from stream_guard.registry import build_registry
from stream_guard.testing import one_rule_policy

REGISTRY = build_registry()
RECORDINGS = {
    "claude-code": "claude_code/replay.jsonl.gz",
    "agentdojo": "agentdyn/runs.jsonl.gz",
    "tau-bench": "tau_bench/airline_gpt-4o.jsonl.gz",
}


@cache
def longest_session(decoder: str) -> list[sg.Event]:
    """Return the longest session of a recording, its events in the order of their lines."""
    path = Path(os.environ.get("STREAM_GUARD_DATA") or "missing") / RECORDINGS[decoder]
    if not path.is_file():
        pytest.skip(f"STREAM_GUARD_DATA names no folder with {RECORDINGS[decoder]} in it")
    reader = REGISTRY.decoders[decoder]()
    sessions: dict[str, list[sg.Event]] = defaultdict(list)
    with gzip.open(path) as lines:
        for number, line in enumerate(lines):
            record = sg.Record(value=line.rstrip(b"\n"), origin=RECORDINGS[decoder], position=number)
            for event in reader.decode(record):
                sessions[event.session_id].append(event)
    return max(sessions.values(), key=len)


def widened(kind: RuleType, params: dict[str, Any]) -> dict[str, Any]:
    """Return parameters that are about every tool, where the kind allows that: then its state has the most to keep."""
    fields = kind.params_type.model_fields
    tools = {name for name in fields if "ToolPattern" in str(fields[name].annotation) and name in params}
    wide = params | dict.fromkeys(tools, "*")
    try:
        kind.params_type.model_validate(wide)
    except ValidationError:
        return params
    return wide


@pytest.mark.slow
@pytest.mark.parametrize("decoder", RECORDINGS)
@pytest.mark.parametrize("kind", REGISTRY.kinds)
def test_state_stays_under_its_bound_over_the_longest_real_session(kind: str, decoder: str) -> None:
    events = longest_session(decoder)
    rule = REGISTRY.kinds[kind]
    for example in rule.examples:
        table = Judge(one_rule_policy(rule, widened(rule, dict(example.params))))
        most = 0
        for event in events:
            table.feed(event)
            states = table.states_of(event.session_id)
            most = max([most, *(len(msgspec.msgpack.encode(state)) for state in states)])
        assert most <= rule.state_limit, example.claim
