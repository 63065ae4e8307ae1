"""The runner reads what a vector may hold, and says what it cannot read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.__main__ import main
from tests.vectors.attacks.expectations import complaint, is_matched
from tests.vectors.attacks.steps import expand, text_of
from tests.vectors.case import LeftOut, run_case
from tests.vectors.runners import RUNNERS

TURN = {
    "request": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "response": {"content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn"},
}
BLOCKING = {"rules": [{"id": "no-rm", "kind": "no_call", "params": {"tool": "delete_all"}, "then": "block"}]}


def verdict(kind: str, case: dict[str, Any]) -> LeftOut | str | None:
    return run_case(RUNNERS[kind], json.loads(json.dumps(case)))


def policy_case(candidate: dict[str, Any], **rule: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"baseline": [], "candidate": [0], "regressions": 1, "fixes": 0}
    policy = {"rules": [{"id": "r", **rule}]}
    return {"policy": policy, "baseline": {"plain": [TURN]}, "candidate": candidate, "expected": nothing}


def test_tool_calls_before_the_first_turn_are_events() -> None:
    lead = [{"tool_name": "pay", "tool_call_id": "c", "arguments": {}}]
    case = policy_case({"plain": [TURN], "lead_tool_calls": lead}, kind="no_call", params={"tool": "pay"})
    case["expected"]["candidate"] = [None]
    assert verdict("policy", case) is None
    del case["candidate"]["lead_tool_calls"]
    assert isinstance(verdict("policy", case), str)


def test_a_measure_that_a_rule_names_finds_what_the_case_says() -> None:
    params = {"text": "hello", "measure": "embedder"}
    case = policy_case({"plain": [TURN]}, kind="must_be_similar", params=params)
    case["expected"]["baseline"], case["expected"]["regressions"] = [0], 0
    assert verdict("policy", case | {"stub_similarity": 0.1}) is None
    assert verdict("policy", case | {"stub_similarity": {"embedder": 0.1}}) is None
    assert "baseline" in str(verdict("policy", case | {"stub_similarity": 0.9}))
    assert "does not load" in str(verdict("policy", case))


def test_a_measure_that_an_invariant_names_is_the_one_that_is_asked() -> None:
    invariant = {"type": "similarity", "expected": "a b c", "threshold": 0.5, "similarity": "embedder"}
    case = {"id": "i", "invariant": invariant, "response": "x y z", "latency_ms": 1.0, "expected_for_us": True}
    assert verdict("contract", case | {"stub_similarity": 0.9}) is None
    assert verdict("contract", case | {"stub_similarity": 0.1, "expected_for_us": False}) is None


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        ("contract", {"call_count": 1, "after_calls": 3, "actual": True, "better": {"triggers": False}}),
        ("contract", {"accepted": False, "weights": {}, "better": True}),
        ("contract", {"id": "i", "invariant": {"type": "contains", "value": "a"}, "response": "a", "latency_ms": 1.0}
         | {"expected_for_us": False, "better": {"passed": True, "why": "it is there"}}),
    ],
)  # fmt: skip
def test_a_better_answer_goes_before_the_measured_one(kind: str, case: dict[str, Any]) -> None:
    assert verdict(kind, case) is None
    del case["better"]
    assert isinstance(verdict(kind, case), str)


@pytest.mark.parametrize(
    ("kind", "case", "reason"),
    [
        ("attacks", {"surface": "moon", "steps": []}, "surface moon"),
        ("attacks", {"surface": "inline", "policy": BLOCKING, "steps": [{"dance": 1}]}, "the step dance"),
        ("attacks", {"surface": "inline", "policy": BLOCKING, "steps": [], "colour": 1}, "colour"),
        ("attacks", {"surface": "redaction", "steps": [{"text": "a", "expect": {"smells": 1}}]}, "smells"),
        ("attacks", {"surface": "inline", "steps": [], "decide": ["a", "b"]}, "decide"),
        ("telemetry", {"format": "native", "records": [], "expect": {"colour": 1}}, "colour"),
        ("incidents", {"id": "sketch", "key": ["session"]}, "sketch"),
        ("incidents", {"pattern": "unheard-of", "name": "n", "events": [], "property": ""}, "unheard-of"),
    ],
)
def test_what_is_not_known_is_left_out_with_the_reason(kind: str, case: dict[str, Any], reason: str) -> None:
    found = verdict(kind, case)
    assert isinstance(found, LeftOut)
    assert reason in found.reason


def test_a_file_that_holds_no_cases_is_a_failure_and_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text("{", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('"text"\n', encoding="utf-8")
    assert main(["attacks", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), str(tmp_path / "c.jsonl")]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "0 passed, 3 failed"


def test_steps_are_repeated_with_their_number() -> None:
    step = {"repeat": 2, "steps": [{"check": {"session_id": "s{n}", "time": {"from": 10, "step": 5}}}]}
    assert [one["check"] for one in expand([step])] == [
        {"session_id": "s0", "time": 10},
        {"session_id": "s1", "time": 15},
    ]
    assert text_of(["a", ["b", 3]]) == "abbb"


def test_findings_are_compared_as_multisets_in_which_a_star_is_any_event() -> None:
    found = [("r", "e1"), ("r", "e2")]
    assert is_matched(found, [["r", "*"], ["r", "e1"]], exactly=True)
    assert not is_matched(found, [["r", "e1"], ["r", "e1"]], exactly=False)
    assert not is_matched(found, [["r", "e1"]], exactly=True)
    assert is_matched(found, [["r", "e1"]], exactly=False)


def test_one_alternative_is_enough_and_what_stands_beside_them_must_hold() -> None:
    told = {"action": "allow", "checked": True}
    assert not complaint({"any_of": [{"action": "block"}, {"checked": True}]}, told)
    assert complaint({"any_of": [{"action": "block"}, {"checked": False}]}, told)
    assert complaint({"action": ["block", "pause"], "any_of": [{"checked": True}]}, told)
    assert complaint({"judged": True}, told) == "the answer says nothing of judged, expected True"


def behaviour(**fields: Any) -> dict[str, Any]:
    """A sentence of a prompt with a trace that breaks it and one that keeps it."""
    calls = [{"kind": "tool_call", "session_id": "s", "event_id": "e", "tool": "wipe_disk", "args": {}}]
    said = [{"kind": "user_message", "session_id": "s", "event_id": "e", "text": "hi"}]
    case = {"id": "x", "prompt": "own.txt", "sentence": "Never call wipe_disk.", "kind": "forbid_tool"}
    return {**case, "breaks": calls, "keeps": said, **fields}


def run_behaviours(folder: Path, *cases: dict[str, Any]) -> int:
    (folder / "own.txt").write_text("You are Bob. Never call wipe_disk. Be kind.", encoding="utf-8")
    (folder / "own.tools.json").write_text('["wipe_disk", "read_page"]', encoding="utf-8")
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, cases)), encoding="utf-8")
    return main(["compliance", str(folder / "cases.jsonl"), "--prompts", str(folder)])


def test_behaviour_is_measured_by_what_is_reported_for_which_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_behaviours(tmp_path, behaviour()) == 0
    assert "breaking traces reported for their sentence: 1 of 1 (100.0%)" in capsys.readouterr().out
    assert run_behaviours(tmp_path, behaviour(sentence="Be kind.")) == 1
    assert "breaking traces reported for their sentence: 0 of 1" in capsys.readouterr().out
    assert run_behaviours(tmp_path, behaviour(sentence="Be kind.", also=["Never call wipe_disk."])) == 0


def test_report_on_a_keeping_trace_a_trap_or_what_needs_a_judge_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = behaviour()["breaks"]
    assert run_behaviours(tmp_path, behaviour(keeps=calls)) == 1
    assert "keeping traces reported: 1 of 1" in capsys.readouterr().out
    assert run_behaviours(tmp_path, behaviour(keeps=calls, breaks=[], trap=True)) == 1
    assert "traps reported: 1 of 1" in capsys.readouterr().out
    assert run_behaviours(tmp_path, behaviour(needs="judge")) == 1
    assert "asserted where only a judge can tell: 1 of 1" in capsys.readouterr().out
