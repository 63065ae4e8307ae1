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

from stream_guard.model import Event, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.policy.load import load_policy
from stream_guard.running.batch import evaluate
from tests.vectors.case import CannotRunError, LeftOut, WrongAnswerError, check_fields, expect
from tests.vectors.measures import registry

_FIELDS: Final = frozenset(("pattern", "name", "id", "property", "events", "fires", "fires_at", "note", "why"))
_APPROVAL: Final = "approval"


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
    found = evaluate(_events(case["events"]), policy)
    at_events = [finding.event_id for finding in found if finding.at == "event"]
    expect("fires at", at_events, case["fires"])
    deadlines = [finding.time for finding in found if finding.at != "event"]
    expect("fires by the clock at", deadlines, [row["deadline_ts"] for row in case.get("fires_at", ())])
    return None


def _classes(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the tools of each class; one that no tool has stands for a tool that nobody calls."""
    classes: dict[str, list[str]] = {"destructive": ["no-such-tool"]}
    for row in rows:
        if "tool_class" in row and row["tool"] not in classes.setdefault(row["tool_class"], []):
            classes[row["tool_class"]].append(row["tool"])
    return classes


def _events(rows: list[dict[str, Any]]) -> Iterator[Event]:
    for row in rows:
        head = {
            "session_id": row["session"],
            "event_id": row["id"],
            "time": float(row["ts"]),
            "run_id": row.get("run", ""),
            "agent": row.get("agent", ""),
            "labels": dict.fromkeys(row.get("labels", ()), "true"),
        }
        make = _SORTS.get(row["type"])
        if make is None:
            raise CannotRunError(f"our events have nothing for {row['type']}")
        yield from make(row, head)


def _call(row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    yield ToolCall(tool=row["tool"], call_id=row.get("call_id", ""), args=row.get("args"), **head)


def _result(row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    yield ToolResult(
        tool=row.get("tool", ""),
        call_id=row.get("call_id", ""),
        status="ok" if row.get("ok", True) else "error",
        output=row.get("result"),
        **head,
    )


def _turn(row: dict[str, Any], head: dict[str, Any]) -> Iterator[Event]:
    response: dict[str, Any] = {"content": [{"type": "text", "text": row.get("text", "")}], "stop_reason": "end_turn"}
    if "tokens" in row:
        response["usage"] = {"input_tokens": 0, "output_tokens": row["tokens"]}
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


_RULES: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "token-budget": _token_budget,
    "destructive-without-confirmation": _confirmed,
}
