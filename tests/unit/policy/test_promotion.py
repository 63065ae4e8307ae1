"""A rule is promoted by one command, wherever its shadow mode stands, and the rest of the file stays as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stream_guard.cli.app import app
from stream_guard.errors import SettingsError
from stream_guard.policy.editing import promote
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry

POLICY = """\
# Ours.
name: shop
version: 2
packs:
- runaway  # for any agent
- {pack: customer_support, shadow: [identify-before-change, yes-before-change]}
rules:
- id: no-drops
  kind: no_call
  params: {tool: "drop_*"}   # tables
  mode: shadow
  reason: 'Kept.'
- id: no-pay
  kind: no_call
  params: {tool: pay}
"""


def shadows(text: str, registry: Registry) -> set[str]:
    return {spec.id for spec in load_policy(text, registry).rules if spec.shadow}


@pytest.mark.parametrize("rule", ["no-drops", "yes-before-change", "token-budget"])
def test_the_rule_is_in_force_and_nothing_else_changed(registry: Registry, rule: str) -> None:
    after = promote(POLICY, rule, registry.policy_packs)
    assert shadows(after, registry) == shadows(POLICY, registry) - {rule}
    kept = [line for line in POLICY.splitlines() if "runaway" not in line and "shadow" not in line]
    assert [line for line in kept if line not in after.splitlines()] == []
    assert "# Ours." in after
    assert "# for any agent" in after


def test_a_whole_pack_in_shadow_mode_keeps_its_other_rules_there(registry: Registry) -> None:
    text = "{version: 2, packs: [{pack: runaway, mode: shadow}]}"
    assert shadows(promote(text, "same-call-again", registry.policy_packs), registry) == shadows(text, registry) - {
        "same-call-again"
    }
    budget = promote(text, "token-budget", registry.policy_packs)
    assert shadows(budget, registry) == shadows(text, registry) - {"token-budget"}


@pytest.mark.parametrize(
    ("text", "rule", "said"),
    [
        (POLICY, "no-pay", "in force already"),
        (POLICY, "too-many-turns", "in force already"),
        (POLICY, "no-drop", 'did you mean "no-drops"'),
        ("{packs: [{pack: runaway, without: [token-budget]}]}", "token-budget", "left out"),
        ("[{id: a, kind: no_call, params: {tool: x}, mode: shadow}]", "a", "native form"),
    ],
)
def test_what_cannot_be_promoted_says_why(registry: Registry, text: str, rule: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        promote(text, rule, registry.policy_packs)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_shadow_findings_are_listed_and_a_promoted_rule_alerts(tmp_path: Path) -> None:
    events, policy = tmp_path / "events.jsonl", tmp_path / "policy.yaml"
    call = {"kind": "tool_call", "session_id": "s", "event_id": "e", "tool": "drop_all", "args": {}}
    events.write_text(json.dumps(call) + "\n")
    policy.write_text(POLICY)
    checked = ("check", events, "--policy", policy, "--allow-inconclusive")
    silent = run(*checked)
    assert (silent.exit_code, "drop_all" in silent.stdout) == (0, False)
    assert f"stream-guard policy promote {policy} RULE" in silent.stderr
    listed = run(*checked, "--shadow")
    assert (listed.exit_code, "in shadow mode: drop_all was called" in listed.stdout) == (0, True)
    (line,) = run(*checked, "--shadow", "--format", "jsonl").stdout.splitlines()
    assert (json.loads(line)["rule_id"], json.loads(line)["shadow"]) == ("no-drops", True)
    assert run(*checked, "--shadow", "--format", "sarif").exit_code
    assert run("policy", "promote", policy, "no-drops").exit_code == 0
    alerted = run(*checked, "--format", "jsonl")
    assert (alerted.exit_code, "shadow" in json.loads(alerted.stdout)) == (1, False)


def test_a_file_that_cannot_be_promoted_stays_as_it_is(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    assert run("policy", "promote", policy, "no-drops", "no-such-rule").exit_code
    assert policy.read_text() == POLICY
