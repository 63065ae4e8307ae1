"""How the reference reads values, conditions, keys and events."""

from __future__ import annotations

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
MISSING: Final = object()
OF_THE_TURN: Final = {"request", "response", "model", "stop_reason"}


def same(value: Json) -> Any:
    """Return something equal for equal JSON values: 1 is 1.0, true is not 1, "5" is not 5."""
    if isinstance(value, dict):
        return ("object", *((key, same(value[key])) for key in sorted(value)))
    if isinstance(value, list | tuple):
        return ("list", *map(same, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ("number", value) if value == value else ("no number",)  # noqa: PLR0124  # NaN
    return (type(value).__name__, value)


def exact(value: Json) -> Any:
    """Return something equal for the same content only: 1 is not 1.0."""
    if isinstance(value, dict):
        return ("object", *((key, exact(value[key])) for key in sorted(value)))
    if isinstance(value, list | tuple):
        return ("list", *map(exact, value))
    return (type(value).__name__, repr(value))


def lookup(value: Json, steps: list[str]) -> Any:
    """Return what stands at the steps, or MISSING."""
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return MISSING
    return value


def holds(source: Json, event: Event, turn: Turn | None, user: UserMessage | None) -> bool | None:
    """Whether a condition holds; None where that hangs on what the turn leaves out, or on a turn that never came."""
    if isinstance(source, list):
        source = {"all_of": source}
    for group, decisive in (("all_of", False), ("any_of", True)):
        if group in source:
            parts = source[group] if isinstance(source[group], list) else [source[group]]
            answers = [holds(part, event, turn, user) for part in parts]
            return decisive if decisive in answers else None if None in answers else not decisive
    if "not" in source:
        inner = holds(source["not"], event, turn, user)
        return None if inner is None else not inner
    return leaf_holds(source["path"], source["op"], source.get("value", True), what_holds_now(event, turn, user))


def leaf_holds(path: str, op: str, expected: Json, context: dict[str, Any]) -> bool | None:
    root, *steps = path.split(".")
    if root in OF_THE_TURN and root not in context:
        return None if op != "exists" or "response" not in context else expected is False
    value = lookup(context, [root, *steps])
    if op == "exists":
        return (value is not MISSING) is (expected is not False)
    return value is not MISSING and compare(value, op, expected)


def what_holds_now(event: Event, turn: Turn | None, user: UserMessage | None) -> dict[str, Any]:
    """Return what conditions are about: the event, and the last turn and message of its session."""
    context: dict[str, Any] = {"labels": event.labels, "agent": event.agent, "run_id": event.run_id}
    if isinstance(event, ToolCall | ToolResult | GateDecision):
        context["tool"] = {"name": event.tool, "args": event.args}
    if isinstance(event, ToolResult):
        context["tool"]["result"] = {"status": event.status, "output": event.output, "latency_ms": event.latency_ms}
    if user is not None:
        context["user"] = {"text": user.text}
    if turn is not None:
        request, response = turn.request, turn.response
        context |= {"response": response} | ({"request": request} if request is not None else {})
        context |= {name: source[name] for source in (response, request or {}) for name in ("model",) if name in source}
        context |= {"stop_reason": response["stop_reason"]} if "stop_reason" in response else {}
    return context


def compare(value: Json, op: str, expected: Json) -> bool:
    if op in {"==", "!="}:
        return (same(value) == same(expected)) is (op == "==")
    if op in {"in", "not_in"}:
        return any(same(value) == same(item) for item in expected) is (op == "in")
    if op in {"contains", "not_contains"}:
        return contains(value, expected) is (op == "contains")
    both = [one for one in (value, expected) if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(both) < 2:
        return False
    return bool({">": value > expected, ">=": value >= expected, "<": value < expected, "<=": value <= expected}[op])


def contains(value: Json, expected: Json) -> bool:
    if isinstance(value, str):
        return isinstance(expected, str) and expected in value
    blocks = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    texts = [block.get("text") for block in blocks]
    return (isinstance(value, list) and any(same(item) == same(expected) for item in value)) or (
        isinstance(expected, str)
        and any(block.get("name") == expected for block in blocks) | any(expected in t for t in texts if t is not None)
    )


def overrides(rule: Rule[Any, Any], handler: str) -> bool:
    return getattr(type(rule), handler) is not getattr(Rule, handler)


def looks_at(rule: Rule[Any, Any], event: Event) -> bool:
    """Whether the rule has a handler for the event, and what it needs is there."""
    handler, names, tools = HANDLERS[type(event)], rule.handlers(), rule.tools()
    if not overrides(rule, handler) or (names is not None and handler not in names):
        return False
    if isinstance(event, ToolCall | ToolResult | GateDecision) and tools is not None and not tools.matches(event.tool):
        return False
    return "clock" not in rule.needs() or event.time is not None


def key_values(key: tuple[str, ...], event: Event) -> tuple[Any, ...] | None:
    """Return the values of a key as values; None where the event has none for a part of it."""
    args = event.args if isinstance(event, ToolCall | ToolResult | GateDecision) else None
    tool = event.tool if isinstance(event, ToolCall | ToolResult | GateDecision) else None
    plain = {"agent": event.agent or None, "run": event.run_id, "tool": tool, "all": ""}
    context = {"args": args, "labels": event.labels}
    values = [plain[part] if part in plain else lookup(context, part.split(".")) for part in key]
    return None if None in values or MISSING in values else tuple(map(same, values))


def read_response(turn: Turn) -> tuple[str, list[dict[str, Json]]]:
    """Return what a response says, and its tool-use blocks."""
    blocks = turn.response.get("content", [])
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    return "\n".join(texts), [block for block in blocks if block["type"] == "tool_use"]


def call_of_block(turn: Turn, block: dict[str, Json]) -> ToolCall:
    names = ("session_id", "event_id", "time", "run_id", "agent", "labels", "index")
    kept = {name: getattr(turn, name) for name in names}
    return ToolCall(tool=block["name"], call_id=block.get("id", ""), args=block["input"], **kept)
