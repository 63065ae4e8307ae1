"""Policies that take in packs: what is taken, what is replaced, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import stream_guard as sg
from stream_guard.cli.app import app
from stream_guard.errors import PolicyError
from stream_guard.judge.spec import Policy
from stream_guard.policy.convert import to_yaml
from stream_guard.policy.load import load_policy
from stream_guard.policy.packs import read_pack
from stream_guard.ports import PolicyPack
from stream_guard.registry import Registry, build_registry

DESK = """
name: desk
tool_classes: {pay: [pay_bill], look: [read_*]}
rules:
  - {id: no-pay, kind: no_call, params: {tool: "@pay"}, severity: critical}
  - {id: few-looks, kind: max_calls, params: {tool: "@look", n: 2}}
"""


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    folder = tmp_path_factory.mktemp("packs")
    texts = {
        "desk": DESK,
        "other": "rules: [{id: no-pay, kind: no_call, params: {tool: y}}]",
        "odd": "rules: [{id: odd, kind: no_such_kind}]",
        "broken": "rules: [{kind: no_call}]",
    }
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)

    class Bringer:
        @sg.hookimpl
        def stream_guard_policy_packs(self) -> list[sg.PolicyPack]:
            return [sg.PolicyPack(name=name, summary=name, file=folder / f"{name}.yaml") for name in texts]

    return build_registry(extra=[Bringer()])


def load(packs: Registry, policy: Any) -> Policy:
    return load_policy(policy if isinstance(policy, str) else json.dumps(policy), packs, file="p")


def refusals(packs: Registry, policy: Any) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load(packs, policy)
    return [str(problem) for problem in caught.value.problems]


def test_rules_of_a_pack_stand_behind_those_of_the_policy(packs: Registry) -> None:
    own = {"id": "own", "kind": "no_call", "params": {"tool": "x"}}
    policy = load(packs, {"packs": ["desk"], "rules": [own]})
    assert [rule.id for rule in policy.rules] == ["own", "no-pay", "few-looks"]
    assert policy.tool_classes == {"pay": ["pay_bill"], "look": ["read_*"]}


def test_a_policy_of_packs_alone_needs_no_rules(packs: Registry) -> None:
    assert [rule.id for rule in load(packs, "packs: [desk]").rules] == ["no-pay", "few-looks"]


def test_a_rule_with_the_same_id_takes_the_place_of_the_packs(packs: Registry) -> None:
    own = {"id": "few-looks", "kind": "max_calls", "params": {"tool": "@look", "n": 9}}
    policy = load(packs, {"packs": ["desk"], "rules": [own]})
    assert [(rule.id, rule.params.get("n")) for rule in policy.rules] == [("few-looks", 9), ("no-pay", None)]


def test_rules_can_be_left_out(packs: Registry) -> None:
    policy = load(packs, {"packs": [{"pack": "desk", "without": ["few-looks"]}]})
    assert [rule.id for rule in policy.rules] == ["no-pay"]


def test_a_whole_pack_can_be_in_shadow_mode(packs: Registry) -> None:
    assert all(rule.shadow for rule in load(packs, {"packs": [{"pack": "desk", "mode": "shadow"}]}).rules)
    assert not any(rule.shadow for rule in load(packs, {"packs": [{"pack": "desk"}]}).rules)


def test_some_rules_of_a_pack_can_be_in_shadow_mode(packs: Registry) -> None:
    policy = load(packs, {"packs": [{"pack": "desk", "shadow": ["no-pay"]}]})
    assert [(rule.id, rule.shadow) for rule in policy.rules] == [("no-pay", True), ("few-looks", False)]
    assert "no rule" in refusals(packs, {"packs": [{"pack": "desk", "shadow": ["nopay"]}]})[0]


@pytest.mark.parametrize("own", ["wire", ["wire"]])
def test_tools_that_the_policy_lists_come_under_the_rules_of_the_pack(packs: Registry, own: Any) -> None:
    policy = load(packs, {"packs": ["desk"], "tool_classes": {"pay": own}})
    assert policy.tool_classes["pay"] == ["wire", "pay_bill"]
    calls = [sg.ToolCall(session_id="s", call_id=tool, tool=tool, args={}) for tool in ("wire", "pay_bill", "look")]
    assert [finding.evidence["tool"] for finding in sg.evaluate(calls, policy)] == ["wire", "pay_bill"]


def test_the_version_is_that_of_the_rules_written_out(packs: Registry) -> None:
    policy = load(packs, {"packs": [{"pack": "desk", "mode": "shadow"}], "tool_classes": {"pay": ["wire"]}})
    written = to_yaml(policy)
    assert "packs" not in written
    assert load(packs, written).version == policy.version


def test_what_is_wrong_with_the_name_of_a_pack_is_said_with_its_place(packs: Registry) -> None:
    policy = "packs:\n  - dessk\n  - {pack: desk, without: [few-look], whithout: []}\n  - 5\n"
    said = refusals(packs, policy)
    assert [line.partition(": ")[0] for line in said] == ["p:2:5", "p:3:28", "p:3:39", "p:4:5"]
    assert 'no policy pack is called "dessk"; did you mean "desk"? [SG126]' in said[0]
    assert any('the pack has no rule "few-look"; did you mean "few-looks"? [SG126]' in line for line in said)
    assert any('unknown key "whithout"' in line and 'did you mean "without"?' in line for line in said)


def test_a_rule_of_a_pack_that_cannot_be_built_is_reported_where_the_pack_is_named(packs: Registry) -> None:
    [said] = refusals(packs, "name: a\npacks:\n  - odd\n")
    assert said.startswith('p:3:5: rule "odd": unknown kind "no_such_kind"')


def test_a_pack_whose_rules_have_no_ids_is_refused_by_its_name(packs: Registry) -> None:
    [said] = refusals(packs, "packs: [broken]")
    assert said.startswith("pack:broken:1:1: a policy pack is a mapping with `rules:`, and each of its rules has an id")


def test_two_packs_with_the_same_rule_id_are_refused(packs: Registry) -> None:
    assert "is taken" in refusals(packs, "packs: [desk, other]")[0]
    assert len(load(packs, {"packs": [{"pack": "desk", "without": ["no-pay"]}, "other"]}).rules) == 2


@pytest.mark.parametrize("policy", [{"packs": {}}, {"packs": "desk"}, {"packs": ["desk"], "rules": 5}, {"packs": None}])
def test_a_key_of_the_wrong_type_is_refused(packs: Registry, policy: Any) -> None:
    assert any("[SG106]" in line for line in refusals(packs, policy))


@pytest.mark.parametrize("classes", [5, {"pay": 5}, {"pay": [5]}, {"pay": None}])
def test_a_class_of_the_wrong_type_is_refused_beside_a_pack(packs: Registry, classes: Any) -> None:
    assert any(
        "tool_classes" in line or "pay" in line
        for line in refusals(packs, {"packs": ["desk"], "tool_classes": classes})
    )


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
    return result.exit_code, result.stdout, str(result.exception or "")


def test_a_pack_is_read_again_when_it_changes_and_never_as_a_caller_left_it(tmp_path: Path) -> None:
    file = tmp_path / "desk.yaml"
    file.write_text(DESK)
    pack = PolicyPack(name="desk", summary="Desk.", file=file)
    first = read_pack(pack)
    first["rules"][0]["id"] = first["tool_classes"]["pay"][0] = "changed"
    assert read_pack(pack)["rules"][0]["id"] == "no-pay"
    assert read_pack(pack)["tool_classes"]["pay"] == ["pay_bill"]
    file.write_text(DESK.replace("no-pay", "never-pay"))
    assert read_pack(pack)["rules"][0]["id"] == "never-pay"


def test_packs_are_listed_within_80_columns() -> None:
    code, said, _ = run("packs", "list")
    assert code == 0
    assert {"coding_agent", "runaway"} <= set(said.split())
    assert max(map(len, said.splitlines())) <= 80


def test_packs_are_listed_as_json() -> None:
    rows = json.loads(run("packs", "list", "--format", "json")[1])
    assert all(row["rules"] > row["shadow"] for row in rows)
    assert [row["pack"] for row in rows] == sorted(row["pack"] for row in rows)


def test_a_pack_that_is_shown_is_a_policy(tmp_path: Path, packs: Registry) -> None:
    code, said, _ = run("packs", "show", "runaway")
    assert code == 0
    assert load(packs, said).name == "runaway"


def test_a_pack_that_is_not_there_is_a_mistake_with_advice() -> None:
    code, _, error = run("packs", "show", "runawya")
    assert code
    assert 'did you mean "runaway"?' in error
