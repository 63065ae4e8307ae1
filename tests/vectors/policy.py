"""Policy vectors: rules over recorded turns, in whole (regressions and fixes) and turn by turn."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stream_guard_diff.comparison import compare

from stream_guard.errors import PolicyError
from stream_guard.judge.judge import Judge
from stream_guard.judge.model import Event, Finding, SessionEnd, ToolCall, Turn
from stream_guard.judge.spec import Policy
from stream_guard.policy.load import load_policy
from stream_guard.running.batch import evaluate
from tests.vectors.case import LeftOut, WrongAnswerError, expect, preferred
from tests.vectors.measures import measures_of, registry

SESSION = "session"


def run(case: dict[str, Any]) -> LeftOut | None:
    """Run a case of either sort."""
    return run_turn_by_turn(case) if "recommended" in case else run_whole(case)


def load(policy: Any, measures: dict[str, float] | None = None) -> Policy:
    """Load a policy that a case holds as data; measures it names are those of the case."""
    return load_policy(json.dumps(policy), registry(measures), file="case.json")


def run_whole(case: dict[str, Any]) -> LeftOut | None:
    """Compare violations, regressions and fixes with what the case's target says."""
    target = case.get("target", "expected")
    if target == "open":
        return LeftOut("open: the answer is ours to decide")
    wanted = preferred(case, case[target])
    try:
        policy = load(case["policy"], _measures(case))
    except PolicyError as error:
        if wanted.get("load_error") or wanted.get("loads") is False:
            return None
        raise WrongAnswerError(f"does not load: {error}") from None
    if wanted.get("load_error") or wanted.get("loads") is False:
        raise WrongAnswerError("loads, but should be refused")
    expected = _expected(wanted)
    sides = {}
    for side in ("baseline", "candidate"):
        found = evaluate(_session(case[side]), policy)
        sides[side] = _fold_whole_scope(found, expected["baseline"] + expected["candidate"])
        _expect_places(side, sides[side], expected[side])
    changed = compare({SESSION: sides["baseline"]}, {SESSION: sides["candidate"]})
    for name, got in (("regressions", changed.regressions), ("fixes", changed.fixes)):
        if isinstance(wanted[name], int):
            expect(name, len(got), wanted[name])
        else:
            _expect_places(name, got, expected[name])
    return None


def run_turn_by_turn(case: dict[str, Any]) -> LeftOut | None:
    """Compare when each finding is raised, and at which turn it points."""
    policy = load(_seed_reading(case), _measures(case))
    table = Judge(policy)
    fired: list[list[Any]] = []
    found: list[Finding] = []
    for event in _calls(case.get("lead_tool_calls", ()), ""):
        found += table.feed(event).findings
    fired += [["start", finding.index] for finding in found]
    for number, turn in enumerate(case["plain"]):
        found = []
        for event in _turn_events(number, turn, ""):
            found += table.feed(event).findings
        fired += [[number if finding.at == "event" else finding.at, finding.index] for finding in found]
    found = []
    found += table.feed(SessionEnd(session_id=SESSION, event_id="end")).findings
    fired += [["end", finding.index] for finding in found]
    wanted = preferred(case, case["recommended"])
    # A null index in a vector means "the whole scope": where it points is not part of the answer.
    shown = [[at, None if pair[1] is None else index] for (at, index), pair in zip(fired, wanted, strict=False)]
    expect("fired", shown + fired[len(wanted) :], wanted)
    return None


def _seed_reading(case: dict[str, Any]) -> Any:
    """Return the case's policy, in the reading its answer rests on.

    must_call_before fires at once when ``first`` is missing (a standing decision). An answer that is raised
    later than the turn it points at is the literal reading of the seed, which `if_first_absent: ignore` gives.
    """
    late = any(isinstance(at, int) and index is not None and at > index for at, index in case["recommended"])
    policy = json.loads(json.dumps(case["policy"]))
    for rule in policy["rules"]:
        if late and rule["kind"] == "must_call_before":
            rule["params"]["if_first_absent"] = "ignore"
    return policy


def _measures(case: dict[str, Any]) -> dict[str, float]:
    named = [
        rule.get("params", {}).get("measure") for rule in case["policy"].get("rules", ()) if isinstance(rule, dict)
    ]
    return measures_of(case, named)


def _expected(wanted: dict[str, Any]) -> dict[str, list[tuple[str | None, str | None, int | None]]]:
    """Bring both notations of an answer into one: (rule, severity, index) for each violation."""
    if "candidate" in wanted:
        sides: dict[str, list[tuple[str | None, str | None, int | None]]] = {
            side: [(None, None, index) for index in wanted[side]] for side in ("baseline", "candidate")
        }
        return sides | {"regressions": [], "fixes": []}
    names = {"baseline": "baseline_violations", "candidate": "candidate_violations"}
    return {
        key: [(row["rule_id"], row["severity"], row["pair_index"]) for row in wanted[names.get(key, key)]]
        for key in ("baseline", "candidate", "regressions", "fixes")
    }


def _fold_whole_scope(found: Sequence[Finding], expected: Iterable[tuple[Any, Any, int | None]]) -> list[Finding]:
    """Keep one finding of a rule and scope where the vectors give one verdict on the whole scope (null)."""
    indices: defaultdict[str | None, set[int | None]] = defaultdict(set)
    for rule, _, index in expected:
        indices[rule].add(index)
    kept: dict[Any, Finding] = {}
    for number, finding in enumerate(found):
        known = indices.get(finding.rule_id) or indices.get(None) or set()
        kept.setdefault((finding.slot, finding.part) if known == {None} else number, finding)
    return list(kept.values())


def _expect_places(what: str, got: Sequence[Finding], wanted: list[tuple[str | None, str | None, int | None]]) -> None:
    """Compare as multisets; None on the expected side means any."""
    rest = list(got)
    for rule, severity, index in sorted(wanted, key=str):
        match = next(
            (
                finding
                for finding in rest
                if rule in (None, finding.rule_id)
                and severity in (None, finding.severity.word)
                and index in (None, finding.index)
            ),
            None,
        )
        if match is None:
            raise WrongAnswerError(f"{what}: nothing found for {(rule, severity, index)} in {_short(got)}")
        rest.remove(match)
    if rest:
        raise WrongAnswerError(f"{what}: too much: {_short(rest)}; expected {wanted}")


def _short(found: Iterable[Finding]) -> list[tuple[str, str, int | None]]:
    return [(finding.rule_id, finding.severity.word, finding.index) for finding in found]


def _session(trace: dict[str, Any]) -> Iterator[Event]:
    """Turn a recorded trace into events; two or more metadata records mark the sessions in it explicitly."""
    turns = trace["plain"]
    markers = int(trace.get("lead_metadata", True)) + sum(bool(turn.get("session_marker")) for turn in turns)
    part = 0
    yield from _calls(trace.get("lead_tool_calls", ()), "part-0" if markers > 1 else "")
    for number, turn in enumerate(turns):
        part += bool(turn.get("session_marker"))
        yield from _turn_events(number, turn, f"part-{part}" if markers > 1 else "")
    yield SessionEnd(session_id=SESSION, event_id="end")


def _turn_events(number: int, turn: dict[str, Any], part: str) -> Iterator[Event]:
    yield Turn(
        session_id=SESSION, event_id=f"turn-{number}", request=turn["request"], response=turn["response"], part=part
    )
    yield from _calls(turn.get("tool_calls_after", ()), part)


def _calls(rows: Iterable[dict[str, Any]], part: str) -> Iterator[Event]:
    """Yield tool calls that are records of their own: behind a turn, or before the first."""
    for call in rows:
        yield ToolCall(
            session_id=SESSION,
            tool=call["tool_name"],
            call_id=call.get("tool_call_id", ""),
            args=call.get("arguments"),
            part=part,
        )
