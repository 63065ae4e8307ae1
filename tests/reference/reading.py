"""How the reference reads values, contents, keys and conditions."""

from __future__ import annotations

import json
from typing import Any, Final

import stream_guard as sg
from stream_guard.judge.model import Event
from stream_guard.judge.spec import RuleSpec

MISSING: Final = object()
HANDLERS: Final[dict[type[Event], str]] = {
    sg.UserMessage: "on_user_message",
    sg.Turn: "on_turn",
    sg.ToolCall: "on_tool_call",
    sg.GateDecision: "on_decision",
    sg.ToolResult: "on_tool_result",
}
OF_TOOLS: Final = (sg.ToolCall, sg.GateDecision, sg.ToolResult)
OF_THE_TURN: Final = {"request", "response", "model", "stop_reason"}
OPERATORS: Final[dict[str, Any]] = {
    "==": lambda value, expected: same(value) == same(expected),
    "!=": lambda value, expected: same(value) != same(expected),
    "in": lambda value, expected: same(value) in map(same, expected),
    "not_in": lambda value, expected: same(value) not in map(same, expected),
    ">": lambda value, expected: is_number(value) and value > expected,
    ">=": lambda value, expected: is_number(value) and value >= expected,
    "contains": lambda value, expected: any(expected in text for text in texts_in(value)),
}


def told_by(event: Event) -> str:
    """Return what an event tells, exactly: 1 is not 1.0."""
    if isinstance(event, sg.Turn):
        return repr(["turn", event.response["content"]])
    names = {"tool", "call_id", "args", "text"} if isinstance(event, sg.ToolCall | sg.UserMessage) else {"call_id"}
    names |= {"status", "output", "action"}
    return repr([type(event), *(getattr(event, name) for name in sorted(names) if hasattr(event, name))])


def whole(value: Any) -> Any:
    """Return a value with 1.0 as 1."""
    if isinstance(value, dict):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def same(value: Any) -> str:
    """Return something equal for equal JSON values: 1 is 1.0, true is not 1, "5" is not 5."""
    return json.dumps(whole(value), sort_keys=True)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def texts_in(value: Any) -> list[str]:
    """Return a text, or the texts and the tools' names of a list of blocks."""
    if isinstance(value, list):
        return [str(block.get("text", block.get("name"))) for block in value if isinstance(block, dict)]
    return [value] if isinstance(value, str) else []


def lookup(value: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return MISSING
    return value


def key_values(key: tuple[str, ...], event: Event) -> tuple[str, ...] | None:
    """Return the values of a key as texts; None where the event has none for a part of it."""
    context = {"agent": event.agent, "run": event.run_id, "labels": event.labels}
    if isinstance(event, OF_TOOLS):
        context |= {"tool": event.tool, "args": event.args}
    values = [lookup(context, part.split(".")) for part in key if part not in {"session", "all"}]
    if MISSING in values or None in values or ("session" not in key and "" in values):
        return None  # what has no name is one within its session, and nobody across sessions
    return tuple(value if isinstance(value, str) else same(value) for value in values)


def what_holds_now(event: Event, turn: sg.Turn | None, user: sg.UserMessage | None) -> dict[str, Any]:
    """Return what conditions are about: the event, and the last turn and message of its session."""
    context: dict[str, Any] = {"labels": event.labels, "agent": event.agent}
    if isinstance(event, OF_TOOLS):
        context["tool"] = {"name": event.tool, "args": event.args}
    if isinstance(event, sg.ToolResult):
        context["tool"]["result"] = {"status": event.status}
    if user is not None:
        context["user"] = {"text": user.text}
    if turn is not None:
        context |= {"response": turn.response, "stop_reason": turn.response["stop_reason"]}
        context |= {"request": turn.request, "model": turn.request["model"]} if turn.request is not None else {}
    return context


def holds(source: Any, context: dict[str, Any]) -> bool | None:
    """Whether a condition holds; None where that hangs on what the turn leaves out, or on a turn that never came."""
    if isinstance(source, list):
        source = {"all_of": source}
    for group, decisive in (("all_of", False), ("any_of", True)):
        if group in source:
            answers = [holds(part, context) for part in source[group]]
            return decisive if decisive in answers else None if None in answers else not decisive
    if "not" in source:
        inner = holds(source["not"], context)
        return None if inner is None else not inner
    root, *steps = source["path"].split(".")
    if root in OF_THE_TURN and root not in context:
        return None
    value = lookup(context, [root, *steps])
    if source["op"] == "exists":
        return (value is not MISSING) is source.get("value", True)
    return value is not MISSING and bool(OPERATORS[source["op"]](value, source["value"]))


def gate_of(spec: RuleSpec, context: dict[str, Any]) -> bool | None:
    """Whether a rule is asked; None where that cannot be told."""
    sources = [spec.when.source] if spec.when is not None else []
    sources += [{"not": spec.unless.source}] if spec.unless is not None else []
    return holds(sources, context)


def has_gate(spec: RuleSpec) -> bool:
    return spec.when is not None or spec.unless is not None


def is_single(spec: RuleSpec) -> bool:
    """Whether a rule has one state in a session, in a part of it, or in everything."""
    return spec.key in {("session",), ("all",)} and spec.scope != "run"


def overrides(spec: RuleSpec, handler: str) -> bool:
    names = spec.rule.handlers()
    is_there = getattr(type(spec.rule), handler) is not getattr(sg.Rule, handler)
    return is_there and (names is None or handler in names or handler == "on_ungated")


def looks_at(spec: RuleSpec, event: Event) -> bool:
    """Whether the rule has a handler for the event."""
    tools = spec.rule.tools()
    is_its_tool = not isinstance(event, OF_TOOLS) or tools is None or tools.matches(event.tool)
    return overrides(spec, HANDLERS[type(event)]) and is_its_tool
