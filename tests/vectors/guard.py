"""Guard vectors: rule sets of agents and attempts, judged inline and on the follow-up path."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from stream_guard.errors import PolicyError, Problem
from stream_guard.guard.decisions import Decider
from stream_guard.judge.findings import CONTESTED_CALL
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Action, Decision, Finding, ToolCall
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.registry import Registry, build_registry
from stream_guard.running.batch import evaluate
from tests.replaying import ReplayingGuard
from tests.vectors.case import LeftOut, WrongAnswerError, expect

# Which of our codes may stand for a refusal that a case names; one that is not here may have any.
CODES: Final = {
    "pause_in_request_mode": {"SG124"},
    "invalid_regex": {"SG114"},
    "missing_id": {"SG105"},
    "duplicate_id": {"SG109"},
    "unknown_predicate": {"SG104"},
}


@cache
def registry() -> Registry:
    """What is installed."""
    return build_registry()


def run(case: dict[str, Any]) -> LeftOut | None:
    """Run a case: does it load as it should, and does every attempt get the answers it should."""
    try:
        policy = load_policy(json.dumps({"agents": case["agents"]}), registry(), file="case.json")
    except PolicyError as error:
        _expect_refusal(case, [problem for problem in error.problems if not problem.warning])
        return None
    if case.get("kind") == "load":
        expect("accepted", True, case["expect_load"]["accepted"])
        return None
    attempts = [_attempt(row) for row in case["attempts"]]
    inline = _inline(policy, case["attempts"])
    followup = _followup(policy, attempts)
    for row in case["expect"]:
        attempt = row["attempt"]
        _expect_inline(attempt, inline[attempt], row["inline"])
        _expect_field(f"{attempt}: follow-up matches", followup[attempt], row["followup"], "matched")
        if "audit" in row:
            found = [finding for finding in inline[attempt].findings if not finding.shadow]
            expect(f"{attempt}: audit", [_audited(finding) for finding in found], [_plain(one) for one in row["audit"]])
    return None


def _expect_refusal(case: dict[str, Any], problems: Sequence[Problem]) -> None:
    wanted = case.get("expect_load", {"accepted": bool(not case.get("accept_load_rejection"))})
    if wanted["accepted"]:
        raise WrongAnswerError(f"does not load: {'; '.join(map(str, problems))}")
    codes = CODES.get(wanted.get("error", ""))
    if codes is not None and not any(problem.code in codes for problem in problems):
        raise WrongAnswerError(f"refused for another reason than {wanted['error']}: {'; '.join(map(str, problems))}")
    rule = wanted.get("rule")
    if rule is not None and not any(problem.rule_id == rule for problem in problems):
        raise WrongAnswerError(f"refused, but not because of rule {rule}: {'; '.join(map(str, problems))}")


def _attempt(row: dict[str, Any]) -> ToolCall:
    return ToolCall(
        session_id=row["session"],
        event_id=row["id"],
        time=row["ts"],
        run_id=row["run"],
        agent=row["agent"],
        tool=row["tool"],
        args=row["args"],
    )


def _inline(policy: Policy, rows: Sequence[dict[str, Any]]) -> dict[str, Decision]:
    guard = ReplayingGuard(policy)
    return {row["id"]: guard.check(_attempt(row)) for row in rows}


def _followup(policy: Policy, attempts: Sequence[ToolCall]) -> dict[str, list[str]]:
    """Judge the same attempts as recorded events; return the rules that match each."""
    found: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in evaluate(attempts, policy):
        if not finding.shadow and finding.kind != CONTESTED_CALL:
            found[finding.event_id].append(finding)
    judge = Decider(Judge(policy, mode="inline"))
    ordered = {event: judge.in_order(findings) for event, findings in found.items()}
    return {call.event_id: [finding.rule_id for finding in ordered.get(call.event_id, ())] for call in attempts}


def _expect_inline(attempt: str, decision: Decision, wanted: dict[str, Any]) -> None:
    found = [finding for finding in decision.findings if finding.kind != CONTESTED_CALL]  # which is of no rule
    matched = [finding.rule_id for finding in found if not finding.shadow]
    outcome = decision.action.word if decision.checked else None
    _expect_field(f"{attempt}: inline matches", matched, wanted, "matched")
    _expect_field(f"{attempt}: outcome", outcome, wanted, "outcome")
    if "task" in wanted:
        task = "anomaly_review" if decision.action is Action.PAUSE else None
        _expect_field(f"{attempt}: task", task, wanted, "task")
    if "session_ended" in wanted:
        _expect_field(f"{attempt}: session ended", decision.session_ended, wanted, "session_ended")


def _expect_field(what: str, got: object, wanted: dict[str, Any], name: str) -> None:
    """Compare with the answer, or with any of the answers that a case accepts."""
    accepted = wanted.get(f"{name}_any_of")
    if accepted is None:
        expect(what, got, wanted[name])
    elif got not in accepted:
        raise WrongAnswerError(f"{what}: got {got!r}, expected one of {accepted!r}")


def _audited(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule_id,
        "then": finding.then.word if finding.then is not None else None,
        "reason": finding.reason,
    }


def _plain(audited: dict[str, Any]) -> dict[str, Any]:
    return {**audited, "reason": audited.get("reason") or ""}
