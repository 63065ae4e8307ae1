from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from stream_guard.cli.app import app
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry

GOOD = "rules: [{id: a, kind: no_call, params: {tool: x}}]\n"
BAD = "rules:\n  - {id: a, kind: no_cal, params: {tool: x}}\n  - {kind: no_call, params: {tool: x}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yml").write_text(BAD)
    (tmp_path / "notes.txt").write_text("not a policy")
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_lint_of_a_good_policy_prints_nothing_and_succeeds(folder: Path) -> None:
    result = run("lint", folder / "good.yaml")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "policies: 1, errors: 0, warnings: 0" in result.stderr


def test_lint_lists_every_problem_of_every_file_and_exits_2(folder: Path) -> None:
    result = run("lint", folder, folder / "missing.yaml")
    lines = result.stdout.splitlines()
    assert result.exit_code == 2
    assert [line.rsplit("[", 1)[1] for line in lines] == ["SG108]", "SG151]", "SG101]"]
    assert lines[0].startswith(f"{folder / 'bad.yml'}:2:19: ")
    assert "policies: 3, errors: 2, warnings: 1" in result.stderr


def test_warnings_alone_are_not_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("rules: [{kind: no_call, params: {tool: x}}]")
    result = run("lint", file)
    assert result.exit_code == 0
    assert ": warning: " in result.stdout


def test_a_folder_without_policies_is_a_mistake(tmp_path: Path) -> None:
    assert run("lint", tmp_path).exit_code == 2


def test_lint_speaks_json(folder: Path) -> None:
    result = run("lint", folder, "--format", "json")
    said = json.loads(result.stdout)
    assert said["checked"] == 2
    first, second = said["problems"]
    assert (first["line"], first["column"], first["code"], first["level"]) == (2, 19, "SG108", "error")
    assert (second["rule"], second["level"]) == ("rule-1", "warning")


def test_lint_speaks_to_github(folder: Path) -> None:
    odd = folder / "a,b%.yaml"
    odd.write_text("rules: 5\n")
    result = run("lint", odd, "--format", "github")
    name = str(odd).replace("%", "%25").replace(",", "%2C")
    assert result.stdout == f'::error file={name},line=1,col=8,title=SG106::"rules" must be a list, not 5\n'


def test_schema_prints_the_schema_of_policies(registry: Registry) -> None:
    described = json.loads(run("schema", "policy").stdout)
    assert described["$defs"]["rule"]["properties"]["kind"]["enum"] == list(registry.kinds)
    assert run("schema").stdout == run("schema", "policy").stdout
    assert run("schema", "everything").exit_code == 2


def test_convert_prints_the_native_form_and_names_the_rules_it_renamed(registry: Registry, tmp_path: Path) -> None:
    rule = {"id": "r", "kind": "no_call", "params": {"tool": "x"}}
    source = tmp_path / "shadow.json"
    source.write_text(json.dumps([rule, rule]))
    result = run("policy", "convert", source)
    assert result.exit_code == 0
    assert load_policy(result.stdout, registry).version == load_policy(source, registry).version
    assert '"r#2"' in result.stderr


def test_convert_of_a_broken_policy_lists_what_is_wrong(folder: Path) -> None:
    result = run("policy", "convert", folder / "bad.yml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "SG108" in result.stderr
