"""System prompts of real agents: a greeting breaks nothing, and a planted trace breaks exactly its rule."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from stream_guard_compliance import ComplianceResult, check_compliance, extract
from stream_guard_compliance.extraction import ExtractedRule

from stream_guard.registry import build_registry
from stream_guard.settings import Settings
from tests.reports.compliance_breaks import breaking_trace

REGISTRY = build_registry()
JUDGED = Path(__file__).parents[1] / "golden" / "compliance_rules.jsonl"
GREETING = [{"type": "user_message", "content": "hi"}, {"type": "agent_message", "content": "Hello!"}]
OWN_PROMPT = (Path(__file__).parents[1] / "golden" / "compliance_prompt.md").read_text(encoding="utf-8")
OWN_TOOLS = ["wipe_disk", "check_user", "pay_bill", "send_mail", "read_page", "search_docs"]


def prompts() -> list[tuple[str, str, list[str]]]:
    folder = Path(os.environ.get("STREAM_GUARD_DATA") or "missing") / "prompts"
    found = []
    for file in sorted(folder.glob("*.txt")):
        catalogue = file.with_suffix(".tools.json")
        tools = json.loads(catalogue.read_text(encoding="utf-8")) if catalogue.exists() else []
        found.append((file.stem, file.read_bytes().decode("utf-8"), tools))
    return found


@pytest.fixture(scope="module")
def real() -> list[tuple[str, str, list[str]]]:
    found = prompts()
    if not found:
        pytest.skip("STREAM_GUARD_DATA names no folder with prompts in it")
    return found


def check(prompt: str, trace: list[dict[str, Any]], tools: list[str]) -> ComplianceResult:
    return asyncio.run(check_compliance(prompt, trace, tools=tools, registry=REGISTRY, settings=Settings()))


def expect_each_is_broken(prompt: str, tools: list[str]) -> int:
    """Break each rule of a kind that a plain trace breaks; return how many there are."""
    rules = [rule for rule in extract(prompt, tools).rules if is_plain(rule)]
    for rule in rules:
        result = check(prompt, breaking_trace(rule, prompt, tools), tools)
        assert rule.rule.rule_id in {violation.rule_id for violation in result.violations}, rule
    return len(rules)


def is_plain(rule: ExtractedRule) -> bool:
    """Whether a trace that breaks it can be made of its parameters alone."""
    plain = {"no_call", "must_confirm_before", "must_call_before", "must_call_only", "max_calls", "no_pii"}
    return bool(rule.compiled.rules) and all(
        form["kind"] in plain and "when" not in form and "args_pattern" not in str(form) for form in rule.compiled.rules
    )


def test_planted_trace_breaks_exactly_its_rule_of_a_prompt_with_every_sort() -> None:
    assert not check(OWN_PROMPT, GREETING, OWN_TOOLS).violations
    rules = [rule for rule in extract(OWN_PROMPT, OWN_TOOLS).rules if rule.compiled.rules]
    for rule in rules:
        result = check(OWN_PROMPT, breaking_trace(rule, OWN_PROMPT, OWN_TOOLS), OWN_TOOLS)
        assert {violation.rule_id for violation in result.violations} == {rule.rule.rule_id}, rule
    assert len(rules) == 9


def test_greeting_violates_no_real_prompt(real: list[tuple[str, str, list[str]]]) -> None:
    for name, prompt, tools in real:
        assert not check(prompt, GREETING, tools).violations, name


def test_planted_trace_breaks_its_rule_of_a_real_prompt(real: list[tuple[str, str, list[str]]]) -> None:
    assert sum(expect_each_is_broken(prompt, tools) for _, prompt, tools in real)


def test_every_character_of_a_real_prompt_that_says_something_is_in_the_result(
    real: list[tuple[str, str, list[str]]],
) -> None:
    for name, prompt, tools in real:
        found = extract(prompt, tools)
        places = [(one.rule.offset, one.end) for one in found.rules]
        places += [(one.offset, one.end) for one in found.unparsed]
        places += [(one.sentence.offset, one.sentence.end) for one in found.other]
        covered = bytearray(len(prompt))
        for start, end in places:
            covered[start:end] = b"\1" * (end - start)
        missed = "".join(char for char, seen in zip(prompt, covered, strict=True) if not seen and char.isalpha())
        assert len(missed) < len(prompt) * 0.01, (name, missed[:200])


def test_concrete_rules_of_the_real_prompts_are_those_that_were_judged(real: list[tuple[str, str, list[str]]]) -> None:
    judged = [json.loads(line) for line in JUDGED.read_text(encoding="utf-8").splitlines()]
    made = [
        (name, prompt.count("\n", 0, rule.rule.offset) + 1, rule.rule.kind)
        for name, prompt, tools in real
        for rule in extract(prompt, tools).rules
        if rule.compiled.rules
    ]
    assert sorted(made) == sorted((row["prompt"], row["line"], row["kind"]) for row in judged)
    assert sum(row["verdict"] == "right" for row in judged) >= 0.9 * len(judged)
