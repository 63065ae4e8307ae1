"""Incident vectors: patterns as sketches, and small traces in which they must or must not be found.

A trace names its pattern. Which rule of ours looks for a pattern is written here, with the threshold that the trace's
property states. A pattern that no kind of rule can look for yet is left out: a near miss must not count as found
harmless by a rule that is not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from stream_guard.judge.model import Event, GateDecision, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.policy.load import load_policy
from stream_guard.running.batch import evaluate
from tests.vectors.case import CannotRunError, LeftOut, WrongAnswerError, check_fields, expect
from tests.vectors.measures import registry

_FIELDS: Final = frozenset(("pattern", "name", "id", "property", "events", "fires", "fires_at", "note", "why"))
_APPROVAL: Final = "approval"
_WORKING: Final = {"content": [], "stop_reason": "tool_use"}  # of an agent that goes on


def run(case: dict[str, Any]) -> LeftOut | None:
    """Compare at which events, and by which deadlines, the pattern's rule fires."""
    if "events" not in case:
        return LeftOut("the sketch of a pattern, without a trace")
    check_fields("the field of a case", case, _FIELDS)
    make = _RULES.get(case["pattern"])
    if make is None:
        return LeftOut(f"no kind of rule looks for {case['pattern']} yet")
    rule = {"id": case["pattern"], **make(case["property"])}
    classes = _classes(case["events"])
    policy = load_policy(json.dumps({"rules": [rule], "tool_classes": classes}), registry(), file="case.json")
    rows = _with_call_ids(case["events"]) if case["pattern"] == "approved-then-changed" else case["events"]
    found = evaluate(_events(rows), policy)
    at_events = [finding.event_id for finding in found if finding.at == "event"]
    expect("fires at", at_events, case["fires"])
    deadlines = [finding.time for finding in found if finding.at != "event"]
    expect("fires by the clock at", deadlines, [row["deadline_ts"] for row in case.get("fires_at", ())])
    return None


def _classes(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the tools of each class; one that no tool has stands for a tool that nobody calls."""
    classes: dict[str, list[str]] = {name: ["no-such-tool"] for name in ("destructive", "egress", "sensitive")}
    for row in rows:
        if "tool_class" in row and row["tool"] not in classes.setdefault(row["tool_class"], []):
            classes[row["tool_class"]].append(row["tool"])
    return classes


def _with_call_ids(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put the id of a call among its arguments: approvals are calls of their own here, and have other ids."""
    return [{**row, "args": {"approved": row.get("args"), "call": row.get("call_id")}} for row in rows]


def _events(rows: list[dict[str, Any]]) -> Iterator[Event]:
    started = {(row["session"], row.get("run")) for row in rows if row["type"] == "run_start"}
    for row in rows:
        head = {
            "session_id": row["session"],
            "event_id": row["id"],
            "time": float(row["ts"]),
            "run_id": row.get("run", ""),
            "agent": row.get("agent", ""),
            "labels": dict.fromkeys(row.get("labels", ()), "true"),
        }
        if (row["session"], row.get("run")) in started:
            head["labels"]["run_started"] = "true"
        if "principal" in row:
            head["labels"]["principal"] = row["principal"]
        make = _SORTS.get(row["type"])
        if make is None:
            raise CannotRunError(f"our events have nothing for {row['type']}")
        yield from make(row, head)


def _decision(row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    """A decision is about a call of its own, unless a row before told of it."""
    call_id = row.get("call_id") or f"{row['id']}-call"
    if "call_id" not in row:
        yield ToolCall(
            tool=row.get("tool", ""),
            call_id=call_id,
            args=row.get("args"),
            **{**head, "event_id": f"{row['id']}-asked"},
        )
    yield GateDecision(action=row.get("outcome", "block"), call_id=call_id, tool=row.get("tool", ""), **head)


def _handoff(row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    """A hand-off shows as a turn of one agent, and then one of the other."""
    yield Turn(response=_WORKING, **{**head, "agent": row["from_agent"], "event_id": f"{row['id']}-from"})
    yield Turn(response=_WORKING, **{**head, "agent": row["to_agent"]})


def _run_start(row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    """A run shows with its first turn, and its depth as agents above it."""
    above = tuple(f"above-{number}" for number in range(row.get("depth", 0)))
    yield Turn(response=_WORKING, agent_path=above, **head)


def _run_end(_row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    yield Turn(response={"content": [], "stop_reason": "end_turn"}, **head)


def _call(row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    yield ToolCall(tool=row["tool"], call_id=row.get("call_id", ""), args=row.get("args"), **head)


def _result(row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    """A result that brings the arguments of its call tells of the call too."""
    call_id = row.get("call_id", "")
    if "args" in row and not call_id:
        call_id = f"{row['id']}-call"
        yield ToolCall(tool=row["tool"], call_id=call_id, args=row["args"], **{**head, "event_id": call_id})
    yield ToolResult(
        tool=row.get("tool", ""),
        call_id=call_id,
        status="ok" if row.get("ok", True) else "error",
        output=row.get("result", ""),
        latency_ms=row.get("latency_ms"),
        **head,
    )


def _turn(row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    response: dict[str, Any] = {"content": [{"type": "text", "text": row.get("text", "")}]}  # a run says when it ends
    if "tokens" in row:
        response["usage"] = {"input_tokens": 0, "output_tokens": row["tokens"]}
    if "cost_usd" in row:
        response["usage"] = response.get("usage", {}) | {"cost_usd": row["cost_usd"]}
    yield Turn(response=response, **head)


def _message(row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    yield UserMessage(text=row.get("text", ""), **head)


def _approval(row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    """An approval is asked for with a tool, and given or not in its result."""
    call_id = f"{row['id']}-call"
    yield ToolCall(tool=_APPROVAL, call_id=call_id, args=row.get("args"), **{**head, "event_id": f"{row['id']}-asked"})
    yield ToolResult(tool=_APPROVAL, call_id=call_id, status="ok" if row.get("ok", True) else "error", **head)


_SORTS: Final[dict[str, Callable[[dict[str, Any], dict[str, Any]], Iterator[Event]]]] = {
    "tool_call": _call,
    "tool_result": _result,
    "llm_response": _turn,
    "user_message": _message,
    "approval": _approval,
    "decision": _decision,
    "handoff": _handoff,
    "run_start": _run_start,
    "run_end": _run_end,
}


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    if found is None:
        raise WrongAnswerError(f"the property does not say its threshold as {pattern!r}: {text}")
    return int(found[1])


def _token_budget(text: str) -> dict[str, Any]:
    return {"kind": "max_total_tokens", "params": {"n": _number(r"strictly above (\d+)", text)}}


def _confirmed(text: str) -> dict[str, Any]:
    params = {
        "first": _APPROVAL,
        "second": "@destructive",
        "same_arg": "resource_id",
        "first_must_succeed": True,
        "within_seconds": _number(r"within the last (\d+) s", text),
    }
    return {"kind": "must_call_before", "params": params}


def _identical_calls(text: str) -> dict[str, Any]:
    times = _number(r"(\d+)(?:rd|th|nd)", text)
    return {"kind": "no_repeated_calls", "params": {"times": times, "max_period": 1}, "scope": "run"}


def _cycle(text: str) -> dict[str, Any]:
    params = {
        "min_period": _number(r"period (\d+)\.\.", text),
        "max_period": _number(r"period \d+\.\.(\d+)", text),
        "times": _number(r"repeated (\d+) times", text),
        "again": "each",
        "user_resets": False,
    }
    return {"kind": "no_repeated_calls", "params": params, "scope": "run"}


def _same_result(text: str) -> dict[str, Any]:
    params = {"times": _number(r"(\d+) consecutive", text), "again": "each"}
    return {"kind": "no_repeated_results", "params": params, "scope": "run"}


def _ping_pong(text: str) -> dict[str, Any]:
    twice = _number(r"period (\d+) twice", text)
    return {"kind": "no_handoff_loop", "params": {"times": 2, "max_period": twice, "again": "each"}}


def _depth(text: str) -> dict[str, Any]:
    return {"kind": "max_delegation", "params": {"depth": _number(r"(\d+)", text)}}


def _fan_out(text: str) -> dict[str, Any]:
    params = {"runs": _number(r"more than (\d+)", text), "within_seconds": _number(r"(\d+) s", text)}
    return {"kind": "max_delegation", "params": params}


def _evasion(text: str) -> dict[str, Any]:
    params = {"within_seconds": _number(r"(\d+) s", text)}
    return {"kind": "no_denial_evasion", "params": params}


def _claimed(_text: str) -> dict[str, Any]:
    params = {"claim": r"(?i)\b(sent|emailed)\b", "tool": "send_email"}
    return {"kind": "no_false_claim", "params": params, "scope": "run"}


def _exfiltration(text: str) -> dict[str, Any]:
    params = {
        "tool": "@egress",
        "source_when": {"any_of": [{"path": f"labels.{name}", "op": "exists"} for name in ("secret", "private_data")]},
        "min_chars": _number(r">=(\d+) chars", text),
        "within_seconds": _number(r"within (\d+) s", text),
    }
    return {"kind": "no_value_flow", "params": params}


def _changed(_text: str) -> dict[str, Any]:
    return {"kind": "no_change_after_approval", "params": {"approval": _APPROVAL, "tool": "*", "same_arg": "call"}}


def _label(*names: str) -> dict[str, Any]:
    return {"any_of": [{"path": f"labels.{name}", "op": "exists"} for name in names]}


def _trifecta(_text: str) -> dict[str, Any]:
    seen = [{"on": "result", "when": _label(name)} for name in ("private_data", "untrusted_content")]
    return {"kind": "no_sequence", "params": {"steps": [*seen, {"tool": "@egress"}], "unordered": True}}


def _injected(text: str) -> dict[str, Any]:
    signs = {"path": "tool.result.output", "op": "matches", "value": r"(?i)ignore (all|previous)|you must now|system:"}
    params = {
        "steps": [
            {"on": "result", "when": [_label("untrusted_content"), signs]},
            {"tool": "@sensitive"},
        ],
        "within_seconds": _number(r"(\d+) s", text),
        "unless_between": {"on": "user"},
    }
    return {"kind": "no_sequence", "params": params}


def _aggregate(key: list[str], params: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "max_aggregate", "key": key, "params": params}


def _error_storm(text: str) -> dict[str, Any]:
    params = {
        "of": "result",
        "measure": "ratio",
        "where": {"path": "tool.result.status", "op": "==", "value": "error"},
        "over": 0.5,
        "min_sample": _number(r">=(\d+) results", text),
        "window_seconds": _number(r"over (\d+) s", text),
    }
    return _aggregate(["tool"], params)


def _burn_rate(text: str) -> dict[str, Any]:
    params = {
        "of": "turn",
        "measure": "sum",
        "path": "response.usage.cost_usd",
        "over": float(_number(r"(?:above|than|over) \$?(\d+)", text)),
        "window_seconds": _number(r"(\d+) s", text),
    }
    return _aggregate(["agent"], params)


def _recipients(text: str) -> dict[str, Any]:
    params = {
        "tool": "send_email",
        "measure": "distinct",
        "path": "tool.args.to",
        "over": _number(r"more than (\d+)", text),
        "window_seconds": _number(r"(\d+) s", text),
    }
    return _aggregate(["agent"], params)


def _scraping(text: str) -> dict[str, Any]:
    params = {
        "measure": "distinct",
        "path": "tool.args.customer_id",
        "over": _number(r"more than (\d+)", text),
        "window_seconds": _number(r"(\d+) s", text),
    }
    return _aggregate(["labels.principal"], params)


def _latency(text: str) -> dict[str, Any]:
    params = {
        "of": "result",
        "measure": "percentile",
        "percentile": 95,
        "path": "tool.result.latency_ms",
        "over": _number(r"(\d+) ms", text),
        "min_sample": _number(r">=(\d+)", text),
        "window_seconds": _number(r"over (\d+) s", text),
    }
    return _aggregate(["tool"], params)


def _retries(text: str) -> dict[str, Any]:
    params = {"n": _number(r"more than (\d+)", text), "within_seconds": _number(r"(\d+) s", text)}
    return {"kind": "max_failed_retries", "params": params}


def _followup(text: str) -> dict[str, Any]:
    params = {
        "first": "create_quote",
        "then": "confirm_with_user",
        "within_seconds": _number(r"(\d+) s", text),
        "same_arg": "quote_id",
    }
    return {"kind": "must_call_after", "params": params}


def _stalled(text: str) -> dict[str, Any]:
    params = {"within_seconds": _number(r"for (\d+) s", text)}
    # Only of runs whose beginning is told; the other sessions of the trace move the clock.
    return {"kind": "must_not_stall", "params": params, "scope": "run", "when": _label("run_started")}


def _pii(_text: str) -> dict[str, Any]:
    return {"kind": "no_pii", "params": {"types": ["card"], "where": "tool_args", "tool": "@egress"}}


_RULES: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "token-budget": _token_budget,
    "destructive-without-confirmation": _confirmed,
    "loop-identical-calls": _identical_calls,
    "loop-cycle": _cycle,
    "loop-same-result": _same_result,
    "handoff-ping-pong": _ping_pong,
    "delegation-depth": _depth,
    "fan-out": _fan_out,
    "denial-evasion": _evasion,
    "claimed-not-done": _claimed,
    "exfil-secret-then-send": _exfiltration,
    "approved-then-changed": _changed,
    "lethal-trifecta": _trifecta,
    "injected-tool-call": _injected,
    "tool-error-storm": _error_storm,
    "cost-burn-rate": _burn_rate,
    "many-recipients": _recipients,
    "record-scraping": _scraping,
    "latency-degradation": _latency,
    "retry-storm": _retries,
    "missing-followup": _followup,
    "stalled-run": _stalled,
    "pii-egress": _pii,
}
