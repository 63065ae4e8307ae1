"""``init``: what it writes fits the traces, runs, and holds nothing that a trace could smuggle in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from stream_guard.cli.app import app
from stream_guard.judge.patterns import ToolPattern
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry
from stream_guard.settings import load_settings

ODD_NAMES = (
    "a\n- id: smuggled\n  kind: no_call",
    "x: {y: z}",
    "*",
    "@money",
    "read|write",
    "# comment",
    "[red]markup[/red]",
    "\x1b[31mred",
    "${jndi:x}",
    "null",
    "t" * 500,
    "\u202eevil",
)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return build_registry()


def run(*arguments: str | Path, columns: int = 80) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": str(columns)})


def write_traces(file: Path, calls: Sequence[tuple[str, dict[str, Any]]], sessions: int = 10) -> Path:
    lines: list[dict[str, Any]] = []
    for number in range(sessions):
        session = {"session_id": f"s{number}", "agent": "[bold]agent"}
        lines.append({"kind": "user_message", "text": "please do", "event_id": f"{number}-u", **session})
        for place, (tool, args) in enumerate(calls):
            ids = {"event_id": f"{number}-{place}", "call_id": f"c{place}"}
            lines.append({"kind": "tool_call", "tool": tool, "args": args, **ids, **session})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


CODING = [("Read", {"file_path": "a"}), ("Bash", {"command": "ls"}), ("Edit", {"file_path": "a"})]


@pytest.fixture(scope="module")
def coding(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    folder = tmp_path_factory.mktemp("coding")
    traces = write_traces(folder / "traces.jsonl", [*CODING, ("run_in_sandbox", {"code": "1"})])
    return run("init", traces, "--into", folder / "guard"), folder


def test_it_says_what_it_found(coding: tuple[Result, Path]) -> None:
    said = coding[0].stdout
    assert coding[0].exit_code == 0
    assert "native (confidence 1.00)" in " ".join(said.split())  # wherever the line is wrapped
    assert "10 sessions, 50 events" in said
    assert "agents: [bold]agent (50 events)" in said
    assert "coding_agent: Bash, Edit, Read, run_in_sandbox" in said
    assert "agents-without-end is left out: these traces lack what it needs" in said  # they have no clock
    assert "0 alerts" in said
    assert max(len(line) for line in said.splitlines() if "stream-guard check" not in line and "/" not in line) <= 80


def test_the_policy_takes_in_what_fits_and_adds_tools_to_the_classes_of_packs(
    coding: tuple[Result, Path], registry: Registry
) -> None:
    policy = load_policy(coding[1] / "guard" / "policy.yaml", registry)
    assert policy.warnings == ()
    assert "run_in_sandbox" in policy.tool_classes["shell"]
    ids = {rule.id for rule in policy.rules}
    assert {"no-deleting-system-folders", "same-call-again"} <= ids
    assert "yes-before-change" not in ids
    assert all(rule.shadow for rule in policy.rules if rule.id.startswith("learned-"))
    assert any(rule.id.startswith("learned-") for rule in policy.rules)


def test_the_schema_beside_it_accepts_the_policy(coding: tuple[Result, Path]) -> None:
    folder = coding[1] / "guard"
    text = (folder / "policy.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=policy.schema.json\n")
    schema = json.loads((folder / "policy.schema.json").read_text())
    assert jsonschema_rs.Draft7Validator(schema).is_valid(YAML(typ="safe", pure=True).load(text))


def test_the_settings_can_be_used(coding: tuple[Result, Path]) -> None:
    folder = coding[1]
    assert load_settings(folder / "guard" / "settings.yaml").plugins.allow
    checked = ("check", folder / "traces.jsonl", "--policy", folder / "guard" / "policy.yaml")
    with_settings = (*checked, "--settings", folder / "guard" / "settings.yaml")
    assert run(*with_settings).exit_code == 4  # calls alone: what listens to responses could not judge
    assert run(*with_settings, "--allow-inconclusive").exit_code == 0


def test_nothing_is_overwritten_without_force(coding: tuple[Result, Path], tmp_path: Path) -> None:
    traces = coding[1] / "traces.jsonl"
    (tmp_path / "settings.yaml").write_text("mine")
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "policy.schema.json").symlink_to(tmp_path / "kept")
    refused = run("init", traces, "--into", tmp_path)
    assert refused.exit_code
    assert "not overwritten" in str(refused.exception)
    assert refused.output == "", "it is said before the traces are read"
    assert (tmp_path / "settings.yaml").read_text() == "mine"
    assert not (tmp_path / "policy.yaml").exists()
    assert run("init", traces, "--into", tmp_path, "--force").exit_code == 0
    assert (tmp_path / "settings.yaml").read_text() != "mine"
    assert (tmp_path / "kept").read_text() == "kept"  # the link was replaced, not followed


def test_hostile_names_are_inert(tmp_path: Path, registry: Registry) -> None:
    traces = write_traces(tmp_path / "odd.jsonl", [(name, {name: 1}) for name in ODD_NAMES], sessions=6)
    result = run("init", traces, "--into", tmp_path / "guard")
    assert result.exit_code == 0, result.exception
    text = (tmp_path / "guard" / "policy.yaml").read_text()
    policy = load_policy(text, registry)
    assert "smuggled" not in text
    named = {tool for members in policy.tool_classes.values() for tool in members}
    assert not named & (set(ODD_NAMES) - {"null"})
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout
    assert "[red]markup[/red]" in result.stdout
    assert "names are not written into the policy" in " ".join(result.stdout.split())


def test_a_rule_that_fires_often_is_in_shadow_mode_and_one_that_fires_seldom_is_not(
    tmp_path: Path, registry: Registry
) -> None:
    calls = [*CODING, ("Bash", {"command": "sudo make install"})]
    traces = write_traces(tmp_path / "often.jsonl", calls)
    said = run("init", traces, "--into", tmp_path / "often").stdout
    assert "no-root fires in 10 of 10 sessions: in shadow mode" in said
    policy = load_policy(tmp_path / "often" / "policy.yaml", registry)
    assert [rule.shadow for rule in policy.rules if rule.id == "no-root"] == [True]
    seldom = write_traces(tmp_path / "seldom.jsonl", CODING, sessions=30)
    with seldom.open("a") as file:
        event = {"kind": "tool_call", "session_id": "s1", "event_id": "bad", "call_id": "z", "tool": "Bash"}
        file.write(json.dumps({**event, "args": {"command": "sudo ls"}}) + "\n")
    said = run("init", seldom, "--into", tmp_path / "seldom").stdout
    assert "no-root: 1 in 1 session" in said
    assert "--policy" in said


def test_without_traces_it_writes_samples_that_keep_the_policy(tmp_path: Path) -> None:
    result = run("init", "--into", tmp_path, "--compose")
    assert result.exit_code == 0
    check = ("check", tmp_path / "events.jsonl", "--policy", tmp_path / "policy.yaml")
    assert run(*check).exit_code == 0
    assert run("check", tmp_path / "bad_events.jsonl", "--policy", tmp_path / "policy.yaml").exit_code == 1
    assert (tmp_path / "policy.yaml").read_text().startswith("# yaml-language-server: ")


def test_the_compose_file_names_options_that_exist(tmp_path: Path) -> None:
    assert run("init", "--into", tmp_path, "--template", "--compose").exit_code == 0
    services = YAML(typ="safe", pure=True).load((tmp_path / "docker-compose.yml").read_text())["services"]
    command, *words = services["worker"]["command"]
    said = run(command, "--help", columns=200).stdout
    assert all(word.split("=")[0] in said for word in words if word.startswith("--"))


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [(("-",), "standard input"), (("x.jsonl", "--template"), "--template"), (("missing.jsonl",), "missing.jsonl")],
)
def test_what_cannot_be_done_is_refused(tmp_path: Path, arguments: tuple[str, ...], advice: str) -> None:
    result = run("init", *arguments, "--into", tmp_path)
    assert result.exit_code
    assert advice in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_records_of_no_known_format_write_nothing(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text('{"some": "thing"}\n')
    result = run("init", tmp_path / "odd.jsonl", "--into", tmp_path / "guard")
    assert result.exit_code == 4
    assert "--from-format" in result.stderr
    assert not (tmp_path / "guard").exists()


def test_a_sample_is_said_to_be_one(coding: tuple[Result, Path], tmp_path: Path) -> None:
    result = run("init", coding[1] / "traces.jsonl", "--into", tmp_path, "--sample", "20")
    assert "20 events; more were not looked at, see --sample" in result.stdout


PI = [
    ("read", {"path": "a"}),
    ("bash", {"command": "ls"}),
    ("edit", {"path": "a", "oldText": "x"}),
    ("write", {"path": "b", "content": "y"}),
]


def test_packs_are_wired_to_the_tools_that_were_found(tmp_path: Path, registry: Registry) -> None:
    traces = write_traces(tmp_path / "pi.jsonl", PI)
    with traces.open("a") as file:
        calls = [("read", {"path": "/home/ann/.aws/credentials"}), ("edit", {"path": "unread.py"})]
        for number, (tool, args) in enumerate(calls):
            event = {"kind": "tool_call", "session_id": "s3", "event_id": f"x{number}", "call_id": f"x{number}"}
            file.write(json.dumps({**event, "tool": tool, "args": args}) + "\n")
    said = run("init", traces, "--into", tmp_path / "guard").stdout
    policy = load_policy(tmp_path / "guard" / "policy.yaml", registry)
    assert policy.warnings == ()
    for tool, name in (("read", "file_read"), ("edit", "file_write"), ("write", "file_write")):
        assert ToolPattern(f"@{name}", policy.tool_classes).matches(tool)
    assert "no-reading-credentials: 1 in 1 session" in said
    assert "read-before-edit: 1 in 1 session" in said
    assert "unread.py" in said


def test_what_was_found_is_shown_with_the_session_and_the_line(tmp_path: Path) -> None:
    traces = write_traces(tmp_path / "seldom.jsonl", CODING, sessions=6)
    lines = traces.read_text().splitlines()
    event = {"kind": "tool_call", "session_id": "s1", "event_id": "bad", "call_id": "z", "tool": "Bash"}
    lines.insert(8, json.dumps({**event, "args": {"command": "rm -rf /"}}))
    traces.write_text("\n".join(lines) + "\n")
    said = run("init", traces, "--into", tmp_path / "guard", columns=300).stdout
    checked = said[said.index("Checked") :]
    assert f"s1 ({traces}:9): " in checked
    assert checked.index("no-deleting-system-folders") < checked.index("To look at them")


def test_a_session_that_was_silent_for_hours_sets_the_idle_time(tmp_path: Path, registry: Registry) -> None:
    traces = tmp_path / "slow.jsonl"
    times = [0, 60, 3 * 3600, 3 * 3600 + 5, 400 * 86_400]  # the last is a wrong clock, or somebody who came back
    event = {"kind": "tool_call", "session_id": "s", "tool": "Read", "args": {"file_path": "a"}}
    traces.write_text("".join(json.dumps({**event, "event_id": f"e{at}", "time": at + 1e9}) + "\n" for at in times))
    said = run("init", traces, "--into", tmp_path / "guard").stdout
    assert "sessions.idle: 4h, because a session here was silent for 3.0 h" in " ".join(said.split())
    assert load_policy(tmp_path / "guard" / "policy.yaml", registry).idle == 4 * 3600


def test_a_rule_that_a_pack_only_watches_is_in_force_where_it_fires_seldom(tmp_path: Path, registry: Registry) -> None:
    calls = [("Read", {"file_path": "a"}), ("Edit", {"file_path": "a"}), ("Bash", {"command": "ls"})]
    traces = write_traces(tmp_path / "craft.jsonl", calls, sessions=20)
    with traces.open("a") as file:
        event = {"kind": "tool_call", "session_id": "s3", "event_id": "x", "call_id": "x", "tool": "Edit"}
        file.write(json.dumps({**event, "args": {"file_path": "unread.py"}}) + "\n")
    said = run("init", traces, "--into", tmp_path / "guard").stdout
    assert "read-before-edit fires in 1 of 20 sessions: taken out of shadow mode" in said
    rules = load_policy(tmp_path / "guard" / "policy.yaml", registry).rules
    assert [rule.shadow for rule in rules if rule.id == "read-before-edit"] == [False]
    assert "1 alerts" in said


def test_of_what_could_not_be_read_nothing_is_claimed(tmp_path: Path) -> None:
    odd, half = tmp_path / "odd.jsonl", tmp_path / "half.jsonl"
    odd.write_text('{"some": "thing"}\n')
    said = run("init", odd, "--into", tmp_path / "guard").stdout
    assert "confidence" not in said
    assert "no format that is known here" in " ".join(said.split())
    traces = write_traces(half, CODING, sessions=5)
    traces.write_text(traces.read_text() + '{"some": "thing"}\n' * 20)
    said = " ".join(run("init", half, "--into", tmp_path / "guard").stdout.split())
    assert "native (confidence 0.50); 20 of 40 records could not be read" in said
