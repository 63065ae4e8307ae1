"""A rule that changes a call: agents whose contract takes new input get it, the others are told what would pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_guard.agent_hooks.asking import Asking
from stream_guard.agent_hooks.dialects import AGENTS, dialect_of
from stream_guard.agent_hooks.installing import samples_of
from tests.wires.gate import own_gate

POLICY = """
rules:
  - id: dry
    kind: no_call
    params: {tool: "*"}
    unless: {path: tool.args.dry_run, op: "==", value: true}
    then: modify
    modify: [{path: dry_run, set: true}]
"""
WORDS = {
    "claude-code": "updatedInput",
    "codex": "updatedInput",
    "vscode": "updatedInput",
    "copilot-cli": "modifiedArgs",
    "amp": "input",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_runs_the_changed_call_or_hears_what_would_pass(agent: str, tmp_path: Path) -> None:
    event, payload = samples_of(agent)[0]
    dialect = dialect_of(agent)
    asked = dialect.read(payload, event)
    asked.session = asked.session or "s1"
    with own_gate(tmp_path, POLICY) as (own, gate):
        answer = Asking(own, dialect).answer(asked)
        [decided] = gate.decisions
    said = json.dumps(answer.said) + answer.stderr
    if agent in WORDS:
        assert decided.word == "modify"
        assert f'"{WORDS[agent]}": {{' in said
        assert '"dry_run": true' in said
        assert "changed by dry" in said
    else:
        assert decided.word == "block"
        assert "dry_run set to true" in said
