"""Compliance vectors: sentences with the rule they state, and prompts with traces and the violations in them."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import cache
from typing import Any

from stream_guard_compliance import ComplianceResult, check_compliance
from stream_guard_compliance.reading.sentences import read_prompt

from stream_guard.registry import Registry, build_registry
from stream_guard.settings import Settings
from tests.vectors.case import LeftOut, WrongAnswerError, expect
from tests.vectors.labels import NO_RULE


@cache
def registry() -> Registry:
    """What is installed."""
    return build_registry()


def run(case: dict[str, Any]) -> LeftOut | None:
    """Run a case of either sort."""
    if "keeps" in case:
        return LeftOut("a sentence of a real prompt: say with --prompts where the prompts are")
    if "sentence" in case:
        run_sentence(case)
    elif "trace_events" in case:
        run_trace(case)
    else:
        raise WrongAnswerError(
            f"a case has a sentence, or a system_prompt with trace_events; this one has {list(case)}"
        )
    return None


def run_sentence(case: dict[str, Any]) -> None:
    """Compare the sort of rule and what it is about; in an order, which comes first counts."""
    read = [one.reading for one in read_prompt(case["sentence"], case.get("tools", ()))]
    rules = [reading for reading in read if reading.kind not in NO_RULE] or read[:1]
    if len(rules) != 1:
        raise WrongAnswerError(f"read as {[reading.kind for reading in rules]}, expected one {case['kind']}")
    kinds = {case["kind"]} if isinstance(case["kind"], str) else set(case["kind"])
    if rules[0].kind not in (kinds | NO_RULE if kinds & NO_RULE else kinds):
        raise WrongAnswerError(f"kind is {rules[0].kind}, expected {case['kind']}")
    got, wanted = list(rules[0].items), list(case["items"])
    expect("items", *((got, wanted) if case["kind"] == "order" else (sorted(got), sorted(wanted))))


def run_trace(case: dict[str, Any]) -> None:
    """Compare what was found, and where; without a judge nothing is spent."""
    check = check_compliance(case["system_prompt"], case["trace_events"], registry=registry(), settings=Settings())
    result = asyncio.run(check)
    wanted = case["expected"]
    expect("detected", result.detected, wanted["detected"])
    last = len(case["trace_events"]) - 1
    _expect_violations(result, wanted["violations"], last)
    if "inconclusive_sentences" in wanted:
        _expect_open(result, wanted["inconclusive_sentences"])
    if len(result.extracted_rules) < wanted.get("min_extracted_rules", 0):
        raise WrongAnswerError(
            f"extracted {len(result.extracted_rules)}, expected {wanted['min_extracted_rules']} or more"
        )
    highest = max((violation.confidence for violation in result.violations), default=0.0)
    expect("confidence, tokens and cost", (result.confidence, result.tokens_used, result.cost_usd), (highest, 0, 0.0))


def _expect_violations(result: ComplianceResult, wanted: list[dict[str, Any]], last: int) -> None:
    """Compare as multisets; what the end of the trace decided may stand at no event or at the last one."""
    got = Counter((one.kind, one.event_index) for one in result.violations)
    for one in wanted:
        place = (one["kind"], one.get("event_index"))
        at_end = (one["kind"], None)
        if got[place]:
            got[place] -= 1
        elif one.get("event_index") == last and got[at_end]:
            got[at_end] -= 1
        else:
            raise WrongAnswerError(f"nothing found for {place}; found {[*got.elements()]}")
    expect("violations beyond the expected", [*got.elements()], [])


def _expect_open(result: ComplianceResult, wanted: list[Any]) -> None:
    """Compare the sentences that only a judge could decide, by their text or by their number."""
    open_rules = {verdict.rule_id for verdict in result.verdicts if verdict.by == "nobody"}
    rules = list(enumerate(result.extracted_rules))
    by_number = bool(wanted) and all(isinstance(one, int) for one in wanted)
    got = [number if by_number else _plain(rule.description) for number, rule in rules if rule.rule_id in open_rules]
    expect("inconclusive sentences", sorted(got), sorted(wanted if by_number else map(_plain, wanted)))


def _plain(sentence: str) -> str:
    return " ".join(sentence.split()).rstrip(".!").lower()
