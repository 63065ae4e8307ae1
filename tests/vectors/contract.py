"""Contract vectors: invariants held against an answer, whole matrices, faults, and how scores are put together."""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import ValidationError
from stream_guard_contract.document import Contract, LlmFault, ScoringWeights, load_contract
from stream_guard_contract.faults import ErrorReply, distort, triggers
from stream_guard_contract.recording import BASELINE, PROMPT, SCENARIO, TRUE
from stream_guard_contract.scoring.matrix import CellState, Matrix, overall
from stream_guard_contract.scoring.score import score

from stream_guard.errors import PolicyError
from stream_guard.judge.model import Event, Turn, UserMessage
from tests.vectors.case import LeftOut, Runner, WrongAnswerError, expect, preferred
from tests.vectors.measures import measures_of, registry

REFUSED = "refused"
FORCED = "forced"
_OPEN = (CellState.INCONCLUSIVE, CellState.NOT_EXERCISED)
_COMPARING = ("similarity", "behavior_unchanged")


def run(case: dict[str, Any]) -> LeftOut | None:
    """Run a case of any sort."""
    for key, runner in _RUNNERS.items():
        if key in case:
            return runner(case)
    raise WrongAnswerError(f"a case has one of {', '.join(_RUNNERS)}; this one has {list(case)}")


def run_invariant(case: dict[str, Any]) -> LeftOut | None:
    """Compare whether the answer keeps the invariant; a suggestion that is better than what was measured decides."""
    is_decided = _is_decided(case)
    better = None if is_decided else case.get("better")
    wanted = case["expected_for_us"] if is_decided else preferred(case, case["expected_for_us"])
    invariant = {"id": "only", "severity": "high", **case["invariant"]}
    recorded = {"output": case.get("response"), "latency_ms": case.get("latency_ms"), "error": case.get("error")}
    baseline = case.get("baseline_response")
    data = {"contract": {"name": "-", "invariants": [invariant], "chaos_matrix": [{"name": "calm"}]}}
    got = _score(data, {"calm": {"p": recorded}}, {"p": baseline} if baseline else {}, case)
    if isinstance(got, str):
        return _compare_refusal(got, wanted, better, case["invariant"])
    if _needs_embedder(case) and case.get("response") != case["invariant"].get("expected"):
        return LeftOut("measured without an embedder; here words are compared")
    state = got.cells[0].state
    said = {CellState.PASS: True, CellState.FAIL: False, CellState.TIMEOUT: False}.get(state)
    expect(f"passed ({state}: {got.cells[0].reason})", said, wanted)
    return None


def _is_decided(case: dict[str, Any]) -> bool:
    """Whether analysis.md has decided against suggestions: excludes_pattern takes texts, as measured."""
    return case["invariant"].get("type") == "excludes_pattern" or _needs_embedder(case)


def _needs_embedder(case: dict[str, Any]) -> bool:
    """Whether the answer rests on a measure that the case neither names nor stands in for."""
    compares = case["invariant"].get("type") in _COMPARING
    known = (case["invariant"].get("expected"), case["invariant"].get("baseline"), case.get("baseline_response"))
    named = case.get("stub_similarity") is not None or case["invariant"].get("similarity") is not None
    return compares and any(known) and not named


def _compare_refusal(got: str, wanted: bool | None, better: Any, invariant: dict[str, Any]) -> LeftOut | None:
    """An invariant that cannot be loaded keeps nothing, which is a fail, and more than that."""
    if wanted is None and better is None:
        return None  # it is to be refused
    if invariant.get("negate") and invariant.get("type") in ("latency", "completes"):
        return LeftOut("analysis.md: negate is refused where it means nothing (latency, completes)") if wanted else None
    if wanted is False:
        return None
    raise WrongAnswerError(f"refused: {got}; expected passed {wanted}")


def run_matrix(case: dict[str, Any]) -> LeftOut | None:
    """Compare the cells, the score and the verdict, or that the contract is refused."""
    wanted = preferred(case, case["expected_for_us"])
    data: dict[str, Any] = {"contract": case["contract"], "golden_prompts": case.get("golden_prompts", [])}
    data |= {key: case[key] for key in ("chaos_matrix", "chaos", "version", "agent") if key in case}
    got = _score(data, case["recorded"], case.get("baseline_recorded") or {}, case)
    if isinstance(got, str):
        if "config_error" not in wanted:
            raise WrongAnswerError(f"refused: {got}")
        return None
    if "config_error" in wanted:
        raise WrongAnswerError(f"loaded, expected an error: {wanted['config_error']}")
    cells = {(cell.invariant, cell.scenario): (cell.severity, _shown(cell.state)) for cell in got.cells}
    expected = {(one[0], one[1]): (str(one[2]).lower(), _plain(one[3])) for one in wanted["cells"]}
    expect("cells", cells, expected)
    expect("score", got.score, wanted["score"])
    expect("passed", got.passed, wanted["passed"])
    expect("critical_failed", got.critical_failed, wanted["critical_failed"])
    return None


def _shown(state: CellState) -> bool | str:
    if state in _OPEN:
        return "open"
    return {CellState.PASS: True, CellState.FAIL: False, CellState.TIMEOUT: False}.get(state, "n/a")


def _plain(value: Any) -> bool | str:
    """What a file may call a cell that has no verdict."""
    if isinstance(value, bool):
        return value
    return "n/a" if str(value).lower() in ("n/a", "na", "not_applicable", "not applicable") else "open"


def _score(
    data: dict[str, Any], recorded: dict[str, Any], baseline: dict[str, Any], case: dict[str, Any]
) -> Matrix | str:
    """Return the matrix of the recorded answers, or why the contract was refused."""
    comparing = [one for one in data["contract"]["invariants"] if one.get("type") in _COMPARING]
    measures = measures_of(case, [one.get("similarity") for one in comparing], FORCED)
    installed = registry(measures)
    if FORCED in measures:
        for invariant in comparing:
            invariant.setdefault("similarity", FORCED)
    try:
        contract: Contract = load_contract(json.dumps(data), installed, file="contract.json")
    except PolicyError as error:
        return str(error)
    events = [
        event
        for scenario, answers in recorded.items()
        for prompt, answer in answers.items()
        for event in _session({SCENARIO: scenario, PROMPT: prompt}, f"{scenario}/{prompt}", answer)
    ]
    for prompt, answer in baseline.items():
        events += _session({BASELINE: TRUE, PROMPT: prompt}, f"baseline/{prompt}", answer)
    return score(contract, events, installed)


def _session(labels: dict[str, str], name: str, answer: Any) -> list[Event]:
    """One recorded answer as a session: a text, an object with output, latency_ms and error, or ``RAISE``."""
    if answer == "RAISE":
        answer = {"output": "", "error": "the agent raised"}
    if not isinstance(answer, dict):
        answer = {"output": answer, "latency_ms": 0.0}
    if answer.get("output") is None and not answer.get("error"):
        answer = {**answer, "error": "no response"}
    response = {"content": [{"type": "text", "text": answer.get("output") or ""}], "stop_reason": "end_turn"}
    if answer.get("latency_ms") is not None:
        response["latency_ms"] = answer["latency_ms"]
    if answer.get("error"):
        response |= {"stop_reason": "error", "error": answer["error"]}
    ask = UserMessage(session_id=name, event_id="q", text=labels[PROMPT], labels=labels)
    return [ask, Turn(session_id=name, event_id="a", response=response)]


def run_overall(case: dict[str, Any]) -> LeftOut | None:
    """Compare the weighted mean over the parts that ran."""
    got = overall(case["scores"], case["weights"])
    if got is None:
        return LeftOut("analysis.md: nothing evaluated is no score, never 100 %")
    wanted = preferred(case, case["expected_for_us"] if "expected_for_us" in case else case["actual"])
    expect("overall", round(got, 6), round(wanted, 6))
    return None


def run_weights(case: dict[str, Any]) -> LeftOut | None:
    """Compare which weights are taken."""
    try:
        ScoringWeights.model_validate(case["weights"])
    except ValidationError:
        expect("accepted", False, preferred(case, case["accepted"]))
    else:
        expect("accepted", True, preferred(case, case["accepted"]))
    return None


def run_fault(case: dict[str, Any]) -> LeftOut | None:
    """Compare what a fault makes of a model's answer."""
    try:
        fault = LlmFault.model_validate(case["fault"])
    except ValidationError:
        return LeftOut("a mode that is not known does nothing there; here the contract is refused")
    got, wanted = distort(case["response"], fault), preferred(case, case["actual"])
    if isinstance(got, ErrorReply):
        expect("refused with", {"status": got.status, "body": got.body}, wanted)
    else:
        expect("answer", got, wanted)
    return None


def run_trigger(case: dict[str, Any]) -> None:
    """Compare on which call a fault comes."""
    probability = case.get("probability")
    got = triggers(probability, case.get("after_calls"), case["call_count"], lambda: 0.5)
    expect("triggers", got, preferred(case, case["actual"]))


_RUNNERS: Final[dict[str, Runner]] = {
    "invariant": run_invariant,
    "contract": run_matrix,
    "fault": run_fault,
    "call_count": run_trigger,
    "scores": run_overall,
    "accepted": run_weights,
}
