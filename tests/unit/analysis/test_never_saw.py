"""A rule that waits for something that never comes says so, with the name that was probably meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from stream_guard.analysis.never_saw import in_words, never_saw
from stream_guard.cli.app import app
from stream_guard.judge.counts import Counts, ToolTally
from stream_guard.judge.model import Event
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry
from stream_guard.running.batch import evaluate
from stream_guard.testing import events

REGISTRY: Registry = build_registry()
TRACE: list[dict[str, Any]] = [
    {"user": "please"},
    {"turn": "a plain answer", "request": {"model": "small"}},
    *({"call": "issue_refund", "args": {"amount": 5, "to": {"id": 1}}} for _ in range(3)),
    {"call": "lookup", "args": {"query": "x"}},
]


def missing(*rules: str, trace: list[dict[str, Any]] = TRACE) -> list[str]:
    policy = load_policy("rules:\n" + "".join(f"  - {rule}\n" for rule in rules), REGISTRY)
    counts = Counts()
    evaluate(events(trace), policy, counts=counts)
    return [str(one) for one in never_saw(policy, counts)]


def rule(when: str = "", tool: str = "issue_refund") -> str:
    gate = f", when: {when}" if when else ""
    return f"{{id: r, kind: no_call, params: {{tool: {tool!r}}}{gate}}}"


def path(text: str, op: str = "==", value: str = "1") -> str:
    return f"[{{path: {text}, op: '{op}', value: {value}}}]"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (rule(tool="isue_refund"), "r never saw isue_refund; seen: issue_refund (3)"),
        (rule(tool="Issue-Refund"), "r never saw Issue-Refund; seen: issue_refund (3)"),
        (rule(tool="rm_*"), "r never saw rm_*"),
        (rule(path("tool.args.amounts")), "r never saw tool.args.amounts; seen: tool.args.amount (3)"),
        (rule(path("tool.args.to.di")), "r never saw tool.args.to.di"),
        (rule(path("tool.args.query")), "r never saw tool.args.query"),  # only another tool has it
        (rule(path("labels.tier")), "r never saw labels.tier"),
        (rule(path("request.models")), "r never saw request.models"),
        (rule(path("tool.name", value="issue_refunds"), "*"), "r never saw issue_refunds; seen: issue_refund (3)"),
        (
            "{id: r, kind: must_call_before, params: {first: lokup, second: issue_refund}}",
            "r fired, and no tool is called lokup; seen: lookup (1)",
        ),
        ("{id: r, kind: forbidden_text, params: {text: secret}}", "r never saw secret"),
        ("{id: r, kind: forbidden_text, params: {text: zz, where: tool_args}}", "r never saw"),
        ("{id: r, kind: must_remain_consistent, params: {path: tool.args.order}}", "r never saw tool.args.order"),
        ("{id: r, kind: max_calls, params: {tool: '*', n: 9}, key: [session, args.acct]}", "tool.args.acct"),
    ],
)
def test_what_never_came_is_named(written: str, said: str) -> None:
    (line,) = missing(written)
    assert said in line


@pytest.mark.parametrize(
    "written",
    [
        rule(),
        rule(tool="issue_*"),
        rule(tool="other|lookup"),
        rule(path("tool.args.amount", ">", "100")),
        rule(path("tool.args.to.id")),
        rule(path("request.model", value="large")),
        rule("{any_of: [" + path("tool.args.amount")[1:-1] + ", " + path("labels.x")[1:-1] + "]}"),
        rule("{not: " + path("labels.x") + "}"),
        rule(path("labels.x", "exists", "false")),
        "{id: r, kind: no_call, params: {tool: lookup}, unless: " + path("labels.x") + "}",
        "{id: r, kind: forbidden_text, params: {text: plain}}",
        "{id: r, kind: max_turns, params: {n: 5}}",
    ],
)
def test_a_rule_that_saw_what_it_needs_says_nothing(written: str) -> None:
    assert missing(written) == []


@pytest.mark.parametrize(
    "written",
    [
        "{id: r, kind: must_call_before, params: {first: confirm_refund, second: issue_refund}}",
        "{id: r, kind: must_call, params: {tool: archive}}",
        "{id: r, kind: no_sequence, params: {steps: [{tool: lookup}, {tool: lookup}], unless_between: {tool: ask}}}",
    ],
)
def test_a_rule_that_fired_is_not_said_to_lack_its_tool(written: str) -> None:
    policy = load_policy(f"rules: [{written}]", REGISTRY)
    counts = _counts(policy, [*TRACE, {"call": "lookup"}])
    assert counts.findings[0]
    assert never_saw(policy, counts) == []


def test_a_kind_that_saw_none_of_its_events_says_which() -> None:
    assert missing("{id: r, kind: max_turns, params: {n: 5}}", trace=[{"user": "x"}]) == ["r never saw a turn"]
    assert missing("{id: r, kind: max_turns, params: {n: 5}}", trace=[]) == []  # nothing was read at all


def test_slips_have_lines_of_their_own_and_the_rest_share_one() -> None:
    policy = load_policy(
        "rules: [" + ", ".join(rule(tool=f"never_{n}").replace("id: r", f"id: r{n}") for n in range(30)) + "]", REGISTRY
    )
    (line,) = in_words(never_saw(policy, _counts(policy, TRACE)))
    assert line.startswith("rules that never saw their tool or text: r0 (never_0), ")
    assert line.endswith(" and 20 more")


def _counts(policy: Policy, trace: list[dict[str, Any]]) -> Counts:
    counts = Counts()
    evaluate(events(trace), policy, counts=counts)
    return counts


def test_seen_paths_are_no_longer_looked_for() -> None:
    policy = load_policy("rules: [" + rule(path("tool.args.amount")) + "]", REGISTRY)
    counts = _counts(policy, TRACE)
    assert dict(counts.paths) == {("r", "tool.args.amount"): 1}  # found at the first call, and not counted again
    assert not counts.fields


def test_invented_names_do_not_fill_the_memory() -> None:
    tally = ToolTally()
    for _ in range(5):
        tally["often"] += 1
    for number in range(5 * ToolTally.LIMIT):
        tally[f"t{number}"] += 1
    assert len(tally) <= ToolTally.LIMIT
    assert tally["often"] == 5


@pytest.mark.parametrize("command", ["check", "replay", "run"])
def test_the_commands_say_it_at_their_end(command: str, tmp_path: Path) -> None:
    recording, policy = tmp_path / "events.jsonl", tmp_path / "p.yaml"
    made: list[Event] = events(TRACE)
    recording.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in made))
    policy.write_text("rules: [" + rule(tool="isue_refund") + "]")
    wide = ["--no-serve"] if command == "run" else []
    result = CliRunner().invoke(app, [command, str(recording), "-p", str(policy), *wide])
    assert "r never saw isue_refund; seen: issue_refund (3)" in result.stderr.splitlines()
    machine = ["--log-format", "json"] if command == "run" else ["--format", "json"]
    result = CliRunner().invoke(app, [command, str(recording), "-p", str(policy), *wide, *machine])
    (line,) = [line for line in result.stderr.splitlines() if "never_saw" in line]
    assert json.loads(line) == {
        "never_saw": [
            {
                "rule_id": "r",
                "what": "tool",
                "name": "isue_refund",
                "near": [{"name": "issue_refund", "count": 3}],
                "fired": False,
            }
        ]
    }
