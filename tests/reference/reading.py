"""How the reference reads values, contents, keys and conditions."""

from __future__ import annotations

import json
from typing import Any, Final

from stream_guard.judge.model import Event, GateDecision, Json, ToolCall, ToolResult, Turn, UserMessage
from stream_guard.judge.rule import Rule

HANDLERS: Final = {
    UserMessage: "on_user_message",
    Turn: "on_turn",
    ToolCall: "on_tool_call",
    GateDecision: "on_decision",
    ToolResult: "on_tool_result",
}
TOLD: Final = {
    "Turn": (),
    "ToolCall": ("tool", "call_id", "args"),
    "ToolResult": ("call_id", "status", "output"),
    "UserMessage": ("text",),
    "GateDecision": ("call_id", "action"),
    "SessionEnd": (),
}
MISSING: Final = object()
OF_THE_TURN: Final = {"request", "response", "model", "stop_reason"}


def told_by(event: Event) -> Any:
    """Return what an event tells, exactly: 1 is not 1.0."""
    kind = type(event).__name__
    content = event.response.get("content") if isinstance(event, Turn) else ""
    return kind, repr([content, *(getattr(event, name) for name in TOLD[kind])])


def whole(value: Json) -> Json:
    """Return a value with 1.0 as 1."""
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def same(value: Json) -> str:
    """Return something equal for equal JSON values: 1 is 1.0, true is not 1, "5" is not 5."""
    return json.dumps(whole(value), sort_keys=True)


def key_values(key: tuple[str, ...], event: Event) -> tuple[str, ...] | None:
    """Return the values of a key as texts; None where the event has none for a part of it."""
    context: dict[str, Json] = {"agent": event.agent, "run": event.run_id, "labels": dict(event.labels)}
    if isinstance(event, ToolCall | ToolResult | GateDecision):
        context |= {"tool": event.tool, "args": event.args}
    values = [lookup(context, part.split(".")) for part in key if part not in {"session", "all"}]
    if MISSING in values or None in values or ("session" not in key and "" in values):
        return None  # what has no name is one within its session, and nobody across sessions
    return tuple(value if isinstance(value, str) else same(value) for value in values)


def lookup(value: Any, steps: list[str]) -> Any:
    """Return what stands at the steps, or MISSING."""
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return MISSING
    return value


def holds(source: Any, event: Event, turn: Turn | None, user: UserMessage | None) -> bool | None:
    """Whether a condition holds; None where that hangs on what the turn leaves out, or on a turn that never came."""
    if isinstance(source, list):
        source = {"all_of": source}
    for group, decisive in (("all_of", False), ("any_of", True)):
        if group in source:
            answers = [holds(part, event, turn, user) for part in source[group]]
            return decisive if decisive in answers else None if None in answers else not decisive
    if "not" in source:
        inner = holds(source["not"], event, turn, user)
        return None if inner is None else not inner
    root, *steps = source["path"].split(".")
    op, expected, context = source["op"], source.get("value", True), what_holds_now(event, turn, user)
    if root in OF_THE_TURN and root not in context:
        return None
    value = lookup(context, [root, *steps])
    if op == "exists":
        return (value is not MISSING) is expected
    return value is not MISSING and compare(value, op, expected)


def what_holds_now(event: Event, turn: Turn | None, user: UserMessage | None) -> dict[str, Any]:
    """Return what conditions are about: the event, and the last turn and message of its session."""
    context: dict[str, Any] = {"labels": event.labels, "agent": event.agent, "run_id": event.run_id}
    if isinstance(event, ToolCall | ToolResult | GateDecision):
        context["tool"] = {"name": event.tool, "args": event.args}
    if isinstance(event, ToolResult):
        context["tool"]["result"] = {"status": event.status, "output": event.output}
    if user is not None:
        context["user"] = {"text": user.text}
    if turn is not None:
        context |= {"response": turn.response, "stop_reason": turn.response["stop_reason"]}
        context |= {"request": turn.request, "model": turn.request["model"]} if turn.request is not None else {}
    return context


def compare(value: Json, op: str, expected: Json) -> bool:
    """Whether an operator holds between values."""
    if op in {"==", "!="}:
        return (same(value) == same(expected)) is (op == "==")
    if op in {"in", "not_in"}:
        assert isinstance(expected, list)
        return any(same(value) == same(item) for item in expected) is (op == "in")
    if op == "contains":
        return contains(value, expected)
    numbers = [one for one in (value, expected) if isinstance(one, int | float) and not isinstance(one, bool)]
    return len(numbers) == 2 and (numbers[0] > numbers[1] if op == ">" else numbers[0] >= numbers[1])


def contains(value: Json, expected: Json) -> bool:
    """Whether a text, or a text or a tool's name of a list of blocks, contains a text."""
    if not isinstance(value, list):
        return isinstance(value, str) and str(expected) in value
    blocks = [item for item in value if isinstance(item, dict)]
    return any(block.get("name") == expected or str(expected) in str(block.get("text", "")) for block in blocks)


def overrides(rule: Rule[Any, Any], handler: str) -> bool:
    """Whether a rule has a handler of its own."""
    return getattr(type(rule), handler) is not getattr(Rule, handler)


def looks_at(rule: Rule[Any, Any], event: Event) -> bool:
    """Whether the rule has a handler for the event."""
    handler, names, tools = HANDLERS[type(event)], rule.handlers(), rule.tools()
    if not overrides(rule, handler) or (names is not None and handler not in names):
        return False
    if isinstance(event, ToolCall | ToolResult | GateDecision):
        return tools is None or tools.matches(event.tool)
    return True


def read_response(turn: Turn) -> tuple[str, list[dict[str, Any]]]:
    """Return what a response says, and its tool-use blocks."""
    blocks: Any = turn.response["content"]
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return "\n".join(texts), [block for block in blocks if block["type"] == "tool_use"]
