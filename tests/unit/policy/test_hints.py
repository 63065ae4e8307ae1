"""Stumbles of people who write their first policy: each is told what to write, and one mistake is one problem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stream_guard_formats.native.decoder import NativeDecoder
from typer.testing import CliRunner

from stream_guard import DecodeError, Json, Record
from stream_guard.cli.app import app
from stream_guard.errors import PolicyError, Problem
from stream_guard.policy.forms import PolicyForm, RuleForm, spellings
from stream_guard.policy.hints import path_meant
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry
from stream_guard.settings import Settings

EIGHT = """\
idle: 5m
rules:
  - {id: a, kind: no_call, tool: refund}
  - {id: b, kind: no_call, params: {tool: sh}, when: [{path: args.command, op: contains, value: rm}]}
  - {id: c, kind: no_call, params: {tool: drop}, action: deny}
  - {id: d, kind: no_call, params: {tool: drop, severity: critical}}
  - {id: e, kind: no_call, params: {tool: drop}, when: {tool.args.amount: 5}}
  - {id: f, type: max_turns, params: {n: 3}}
  - {id: g, kind: no_call, params: {tool: drop}, tests: [{trace: [{call: drop}], expect: [0]}]}
"""
HINTS = (
    (1, 'it belongs under "sessions"'),
    (3, 'belongs under "params"'),
    (4, 'write "tool.args.command"'),
    (5, "write then: block"),
    (6, 'belongs to the rule, beside "kind"'),
    (7, 'write path: tool.args.amount, op: "==", value: 5'),
    (8, 'write "kind"'),
    (9, 'write "hits"'),
)


def problems(text: str, registry: Registry) -> list[Problem]:
    with pytest.raises(PolicyError) as caught:
        load_policy(text, registry, file="p.yaml", check_tests=True)
    return list(caught.value.problems)


def test_eight_stumbles_give_eight_hints(registry: Registry) -> None:
    found = problems(EIGHT, registry)
    assert [problem.place.line for problem in found] == [line for line, _ in HINTS]
    for problem, (_, hint) in zip(found, HINTS, strict=True):
        assert hint in problem.message


def test_every_parameter_of_every_kind_says_where_it_belongs_when_it_stands_beside_the_kind(registry: Registry) -> None:
    own = {name for names in spellings(RuleForm).values() for name in names}
    for kind, rule in registry.kinds.items():
        for name in {name for names in spellings(rule.params_type).values() for name in names} - own:
            rules = f"rules: [{{id: a, kind: {kind}, {name}: 1}}]"
            said = [problem.message for problem in problems(rules, registry)]
            assert any(f'unknown key "{name}"' in text and 'under "params"' in text for text in said), (kind, said)
            assert not any(f'needs "{name}"' in text for text in said), (kind, said)


def test_every_key_of_a_rule_says_where_it_belongs_when_it_stands_among_the_parameters(registry: Registry) -> None:
    for name in {name for names in spellings(RuleForm).values() for name in names}:
        (found,) = problems(f"rules: [{{id: a, kind: no_call, params: {{tool: x, {name}: y}}}}]", registry)
        assert 'beside "kind"' in found.message


def test_every_key_of_a_rule_at_the_top_and_of_the_top_in_a_rule_is_sent_to_its_place(registry: Registry) -> None:
    rule = {name for names in spellings(RuleForm).values() for name in names}
    top = {name for names in spellings(PolicyForm).values() for name in names}
    for name in rule - top:
        (found,) = problems(f"{name}: x\nrules: [{{id: a, kind: no_call, params: {{tool: x}}}}]", registry)
        assert 'belongs to a rule, under "rules"' in found.message
    for name in top - rule - {"rules", "name"}:
        (found,) = problems(f"rules: [{{id: a, kind: no_call, params: {{tool: x}}, {name}: x}}]", registry)
        assert "at the top of the policy" in found.message


@pytest.mark.parametrize(
    ("extra", "hint"),
    [
        ("action: deny", "write then: block"),
        ("effect: Reject", "write then: block"),
        ("onViolation: terminate", "write then: terminate_session"),
        ("decision: require_approval", "write then: pause"),
        ("then: deny", "write then: block"),
        ("then: ask", "write then: pause"),
        ("mode: audit", "write mode: shadow"),
        ("dry_run: true", "write mode: shadow"),
        ("severity: fatal", "write severity: critical"),
        ("level: warn", "write severity: warning"),
        ("on_error: allow", "write on_error: open"),
        ("if: []", 'write "when"'),
        ("except: []", 'write "unless"'),
        ("group-by: agent", 'write "key"'),
        ("message: because", 'write "reason"'),
        ("enabled: false", "mode: shadow"),
        ("trace: []", 'to a test, under "tests"'),
        ("path: tool.args.x", 'to a condition, under "when" or "unless"'),
        ("tol: x", 'the parameter "tool"? it belongs under "params"'),
        ("n: 5", "more kinds have it"),
        ("when: 'tool.args.amount >= 5'", 'write {path: tool.args.amount, op: ">=", value: 5}'),
        ("when: {field: tool.name, op: '==', value: x}", 'write "path"'),
        ("when: {path: tool.name, equals: x}", 'write op: "==", value: "x"'),
        ("when: {and: []}", 'write "all_of"'),
        ("when: {tool: x}", "write path: tool.name"),
        ("when: {severity: high}", 'it belongs to the rule, beside "kind"'),
        ("tests: [{events: []}]", 'write "trace"'),
        ("tests: [{trace: [], severity: high}]", 'it belongs to the rule, beside "kind"'),
        ("tests: [{trace: [], hits: [last]}]", '"end" or "deadline"'),
    ],
)
def test_words_of_other_systems_are_translated(registry: Registry, extra: str, hint: str) -> None:
    found = problems(f"rules: [{{id: a, kind: no_call, params: {{tool: x}}, {extra}}}]", registry)
    assert len(found) == 1, found
    assert hint in found[0].message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("rules: [{no_call: {tool: x}}]", "it is a kind: write kind: no_call"),
        ("rules: [{id: a, kind: no_call, parameters: {tool: x}}]", 'write "params"'),
        ("rules: {a: {kind: no_call}}", "list them: - {id: a, kind: ..., params: ...}"),
        ("policies: [{id: a}]", 'write "rules"'),
        ("rules: [{id: a, params: {kind: no_call, tool: x}}]", 'it stands under "params" and belongs beside it'),
        (
            "rules: [{id: a, kind: must_followup, params: {trigger: [], tool_name: x, must: {kind: tool_call}}}]",
            '"must"',
        ),
        ("rules: [{id: a, kind: tool_guard, params: {}, when: []}]", 'the parameter goes under "params"'),
        ("agents: {a: {severity: high}}\nrules: []", 'belongs to a rule, under "rules"'),
    ],
)
def test_shapes_of_other_systems_are_translated(registry: Registry, text: str, hint: str) -> None:
    assert hint in problems(text, registry)[0].message


def test_a_parameter_in_the_wrong_place_is_checked_too(registry: Registry) -> None:
    found = problems("rules: [{id: a, kind: max_turns, n: many}]", registry)
    assert [(problem.code, problem.place.column) for problem in found] == [("SG104", 34), ("SG106", 37)]


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("args.command", "tool.args.command"),
        ("arguments.a.b", "tool.args.a.b"),
        ("tool.input.path", "tool.args.path"),
        ("tool_input.path", "tool.args.path"),
        ("tool.amount", "tool.args.amount"),
        ("function.arguments.x", "tool.args.x"),
        ("function.name", "tool.name"),
        ("tool_name", "tool.name"),
        ("result.status", "tool.result.status"),
        ("result.rows", "tool.result.output.rows"),
        ("tool.output.rows", "tool.result.output.rows"),
        ("user.message", "user.text"),
        ("session_id", "session.id"),
        ("metadata.tenant", "labels.tenant"),
        ("usage.output_tokens", "response.usage.output_tokens"),
        ("$.tool.args.x", "tool.args.x"),
        ("/tool/args/x", "tool.args.x"),
        ("tool.args[0]['to']", "tool.args.0.to"),
        ("tool.args.x", ""),
        ("nonsense.x", ""),
    ],
)
def test_paths_of_other_systems_are_translated(path: str, meant: str) -> None:
    assert path_meant(path) == meant


def test_no_hint_repeats_what_was_written(registry: Registry) -> None:
    for path in (".", "tool..x", "args.", "args..x", "[", "$", "tool.args.", "\u202eargs.x"):
        assert path_meant(path) != path
        text = f"rules: [{{id: a, kind: no_call, params: {{tool: x}}, when: [{{path: {path!r}, op: '==', value: 1}}]}}]"
        assert all(problem.message.isprintable() for problem in problems(text, registry))


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (b'{"id": "t", "observations": []}', "looks like langfuse 0.80"),
        (b'{"resourceSpans": []}', "looks like otlp-json 1.00"),
        (b'{"sessionId": "s", "type": "user", "uuid": "u"}', "looks like claude-code 0.95"),
        (b'[{"role": "assistant", "tool_calls": [{"id": "1"}]}]', "looks like openai-chat 0.90"),
        (b'{"kind": 5, "session_id": "s"}', '"kind" must be a string'),
        (b'{"Kind": "turn", "session_id": "s"}', 'did you mean "kind"?'),
    ],
)
def test_a_record_of_another_format_says_which_it_looks_like(value: bytes, hint: str, registry: Registry) -> None:
    with pytest.raises(DecodeError) as caught:
        NativeDecoder.configure_among(Settings(), registry.decoders).decode(Record(value))
    assert hint in str(caught.value)
    assert ("--from-format auto" in str(caught.value)) == hint.startswith("looks like")


def test_lint_runs_the_tests_beside_rules(tmp_path: Path) -> None:
    def lint(text: str) -> list[dict[str, Json]]:
        file = tmp_path / "p.yaml"
        file.write_text(text)
        result = CliRunner().invoke(app, ["lint", str(file), "--format", "json"])
        found: list[dict[str, Json]] = json.loads(result.stdout)["problems"]
        assert result.exit_code == (2 if found else 0)
        return found

    rule = "rules: [{id: a, kind: no_call, params: {tool: x}, tests: [%s]}]"
    assert lint(rule % "{trace: [{call: x}], hits: [0]}") == []
    (silent,) = lint(rule % "{trace: [{call: x}]}")
    assert (silent["code"], silent["rule"]) == ("SG125", "a")
    (unreadable,) = lint(rule % "{trace: [{cal: x}], hits: [0]}")
    assert (unreadable["code"], unreadable["column"]) == ("SG125", 59)
    assert "has none of" in unreadable["message"]
