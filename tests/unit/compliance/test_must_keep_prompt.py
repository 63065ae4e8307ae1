"""The kind that holds a session to its own prompt: one verdict inline, in batch and in a worker that is killed."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
from stream_guard_compliance.must_keep_prompt import MustKeepPrompt

import stream_guard as sg
from stream_guard.judge.counts import Counts
from stream_guard.judge.judge import Judge
from stream_guard.ports import Record
from stream_guard.registry import build_registry
from stream_guard.testing import one_rule_policy
from tests.unit.compliance.test_eight_rules import BREAKS, KEEPS, PROMPT, RULES, TOOLS
from tests.vectors.steps import events
from tests.worker.partitions import Rows, fold_with_crashes, open_partition

POLICY = sg.parse_policy(
    json.dumps({"rules": [{"id": "own-prompt", "kind": "must_keep_prompt", "params": {"guesses": True}}]}),
    build_registry(),
    file="policy.json",
)


def session(steps: list[str]) -> list[dict[str, Any]]:
    """A session as telemetry tells it: every turn carries the prompt and the tools."""
    request = {"system": PROMPT, "tools": [{"name": name} for name in TOOLS]}
    told = [{**event, **({"request": request} if event["kind"] == "turn" else {})} for event in events(steps)]
    return [*told, {"kind": "session_end", "session_id": "s", "event_id": "end", "reason": "closed"}]


def native(told: list[dict[str, Any]]) -> list[sg.Event]:
    return [msgspec.convert(event, type=sg.Event) for event in told]


def shown(found: list[sg.Finding]) -> list[tuple[str, str, str]]:
    return sorted({(finding.event_id, finding.detail, json.dumps(finding.evidence)) for finding in found})


def in_batch(told: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return shown(list(sg.evaluate(native(told), POLICY)))


def inline(told: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    guard = sg.Guard(POLICY, clock=sg.ReplayClock())
    return shown([finding for event in native(told) for finding in guard.observe(event)])


def in_a_worker(told: list[dict[str, Any]], seed: int) -> list[tuple[str, str, str]]:
    """Fold the session in the partition of a worker that is killed again and again."""
    rows: Rows = {}
    given = [Record(json.dumps(event).encode(), "events/0", number) for number, event in enumerate(told)]
    found, crashes = fold_with_crashes(
        lambda: open_partition(rows, POLICY, "native"), rows, given, random.Random(seed), batch=3, back=2
    )
    assert crashes
    return shown(found)


@pytest.mark.parametrize("steps", [BREAKS, KEEPS], ids=["breaks", "keeps"])
def test_same_verdict_inline_in_batch_and_in_a_worker_that_is_killed(steps: list[str]) -> None:
    told = session(steps)
    expected = in_batch(told)
    assert inline(told) == expected
    assert [in_a_worker(told, seed) for seed in (1, 2, 3)] == [expected] * 3


def test_every_planted_violation_is_named_by_its_sentence() -> None:
    found = " ".join(evidence for _, _, evidence in in_batch(session(BREAKS)))
    assert [rule for rule in RULES if json.dumps(rule)[1:-1] not in found] == []
    assert in_batch(session(KEEPS)) == []


def test_gate_refuses_the_call_that_the_prompt_forbids() -> None:
    form = {"id": "own-prompt", "kind": "must_keep_prompt", "then": "block"}
    policy = sg.parse_policy(json.dumps({"rules": [form]}), build_registry(), file="policy.json")
    guard = sg.Guard(policy, clock=sg.ReplayClock())
    guard.observe(sg.Turn(session_id="s", request={"system": "Never call wipe_disk."}, response={"content": []}))
    assert guard.check(sg.ToolCall(session_id="s", tool="read_page", call_id="a")).action is sg.Action.ALLOW
    refused = guard.check(sg.ToolCall(session_id="s", tool="wipe_disk", call_id="b"))
    assert refused.action is sg.Action.BLOCK
    assert "Never call wipe_disk." in refused.findings[0].detail


def unevaluable(*told: sg.Event) -> int:
    counts = Counts()
    table, found = Judge(one_rule_policy(MustKeepPrompt, {}), counts=counts), list[sg.Finding]()
    for event in told:
        found += table.feed(event).findings
    assert not found
    return sum(counts.unevaluable.values())


def test_session_without_a_prompt_is_no_pass() -> None:
    assert unevaluable(sg.ToolCall(session_id="s", tool="wipe_disk"))


@pytest.mark.parametrize("length", [4_000, 40_000])
def test_prompt_that_is_too_long_to_be_remembered_is_no_pass(length: int) -> None:
    noise = random.Random(7)
    words = " ".join(f"{noise.getrandbits(64):x}" for _ in range(length))
    turn = sg.Turn(session_id="s", request={"system": f"Never call wipe_disk. {words}"}, response={"content": []})
    assert unevaluable(turn, sg.ToolCall(session_id="s", tool="wipe_disk"))


def test_more_events_before_the_prompt_than_are_held_is_no_pass() -> None:
    before = [sg.UserMessage(session_id="s", text="x" * 20_000) for _ in range(2)]
    turn = sg.Turn(session_id="s", request={"system": "Never call wipe_disk."}, response={"content": []})
    assert unevaluable(*before, turn, sg.ToolCall(session_id="s", tool="read_page")) == 2
