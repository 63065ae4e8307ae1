"""A team's policy file: its rules hold, a person adds to them, and replaces none."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_guard.errors import PolicyError
from stream_guard.policy.load import load_policy
from stream_guard.registry import build_registry

REGISTRY = build_registry()
TEAM = """
packs: [runaway]
tool_classes: {shell: [Bash]}
rules: [{id: no-shell, kind: no_call, params: {tool: "@shell"}}]
"""


def personal(folder: Path, text: str, team: str = TEAM) -> Path:
    (folder / "app").mkdir()
    (folder / "app" / "policy.yaml").write_text(team, encoding="utf-8")
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def refused(file: Path) -> str:
    with pytest.raises(PolicyError) as raised:
        load_policy(file, REGISTRY)
    return str(raised.value)


def test_rules_classes_and_packs_of_the_team_hold_beside_a_persons_own(tmp_path: Path) -> None:
    mine = "shared: [app/policy.yaml]\npacks: [runaway]\ntool_classes: {shell: [zsh]}\n"
    mine += "rules: [{id: few, kind: max_turns, params: {n: 3}}]"
    read: list[Path] = []
    policy = load_policy(personal(tmp_path, mine), REGISTRY, file_read=read.append)
    ids = [rule.id for rule in policy.rules]
    assert ids[:2] == ["few", "no-shell"]
    assert len(ids) == len(set(ids)) > 2, "a pack that both take in is there once"
    assert sorted(policy.tool_classes["shell"]) == ["Bash", "zsh"]
    assert tmp_path / "app" / "policy.yaml" in read, "a change of the shared file reloads the policy"


def test_nobody_replaces_a_shared_rule_or_leaves_it_out(tmp_path: Path) -> None:
    mine = "shared: [app/policy.yaml]\nrules: [{id: no-shell, kind: max_turns, params: {n: 3}}]"
    said = refused(personal(tmp_path, mine))
    assert 'the rule "no-shell" is a shared one' in said
    assert "mine.yaml:2" in said


@pytest.mark.parametrize(
    ("team", "why"),
    [
        ("shared: [x.yaml]\nrules: []", "takes in no further files"),
        ("- a", "a shared file is a policy"),
        ("rules: [{id: a, kind: no_such_kind}]", "no_such_kind"),
    ],
)
def test_a_shared_file_that_cannot_hold_is_refused(tmp_path: Path, team: str, why: str) -> None:
    assert why in refused(personal(tmp_path, "shared: [app/policy.yaml]\nrules: []", team))


def test_a_missing_shared_file_and_a_policy_that_is_no_file_are_refused(tmp_path: Path) -> None:
    assert "nowhere.yaml" in refused(personal(tmp_path, "shared: [nowhere.yaml]\nrules: []"))
    with pytest.raises(PolicyError, match="takes in no files"):
        load_policy("shared: [/etc/passwd]\nrules: []", REGISTRY)
