"""What a rule can see: the events that have a value at a path, and gates that can never open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from stream_guard.judge.conditions import GROUPS, OPERATORS, certain_leaves
from stream_guard.judge.equality import json_equal
from stream_guard.judge.model import Json
from stream_guard.judge.paths import Path
from stream_guard.judge.rule import Rule, RuleType
from stream_guard.judge.spec import ALL_KEY
from stream_guard.policy.message_parts import show

Events: TypeAlias = frozenset[str]

ALL_EVENTS: Final[Events] = frozenset(("user_message", "turn", "tool_call", "decision", "tool_result"))
_OF_A_TOOL: Final[Events] = frozenset(("tool_call", "decision", "tool_result"))
_RESULT: Final[Events] = frozenset(("tool_result",))
_HANDLERS: Final = {
    "on_user_message": "user_message",
    "on_turn": "turn",
    "on_tool_call": "tool_call",
    "on_decision": "decision",
    "on_tool_result": "tool_result",
}
# The fields below each root. A root that is not listed holds the data of the agent.
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "user": ("text",),
    "tool": ("name", "args", "result"),
    "session": ("id", "turn", "part"),
    "agent": (),
    "run_id": (),
    "model": (),
    "stop_reason": (),
    "response": (
        *("content", "text", "stop_reason", "usage", "model", "latency_ms", "time_to_first_chunk_ms", "error"),
        *("id", "choices", "citations", "metadata"),
    ),
    "response.usage": (
        *("input_tokens", "output_tokens", "thinking_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd"),
    ),
}
_PLAIN: Final = frozenset(("text", "stop_reason", "model", "latency_ms", "time_to_first_chunk_ms", "id"))
RESULT_FIELDS: Final = ("status", "output", "latency_ms")


def dead_end(path: Path) -> str:
    """Return why the path can never have a value, or an empty text when it can."""
    root, steps = path.text.split(".")[0], path.steps
    if not steps:
        return ""
    if root == "tool" and not fields_beside(path.text):
        return _dead_end_in_tool(path.text, steps)
    why = _reason(root, steps)
    return f'path "{path.text}" can never resolve: {why}' if why else ""


def _reason(root: str, steps: Sequence[str]) -> str:
    if known := fields_beside(".".join((root, *steps))):
        return f"{known[0].rpartition('.')[0]} has only {', '.join(known)}"
    if _FIELDS.get(root) == ():
        return f"{root} is a text, with nothing below it"
    if root == "labels" and len(steps) > 1:
        return f"labels.{steps[0]} is a text, with nothing below it"
    if len(steps) > 1 and (root in ("user", "session") or (root == "response" and steps[0] in _PLAIN)):
        return f"{root}.{steps[0]} has nothing below it"
    return ""


def fields_beside(text: str) -> list[str]:
    """Return the paths there are instead of one whose last step nothing has; none where there may be such a step."""
    root, *steps = text.split(".")
    if root == "response" and len(steps) > 1 and steps[0] == "usage":
        root, steps = "response.usage", steps[1:]
    known = _FIELDS.get(root, ())
    return [f"{root}.{name}" for name in known] if steps and known and steps[0] not in known else []


def _dead_end_in_tool(text: str, steps: Sequence[str]) -> str:
    if steps[0] == "name" and len(steps) > 1:
        return f'path "{text}" can never resolve: tool.name is a text, with nothing below it'
    if steps[0] == "result" and len(steps) > 1 and steps[1] not in RESULT_FIELDS:
        known = "tool.result has status, output and latency_ms"
        return f'path "{text}" can never resolve: {known}; write tool.result.output.{steps[1]}'
    return ""


def events_with(path: Path) -> Events:
    """Return the events at which a condition on the path can hold; the engine remembers turns and user messages."""
    if path.text.split(".")[0] != "tool":
        return ALL_EVENTS
    # The session stamps an attempt's arguments on its decision and its result, so only the result is late.
    return _RESULT if path.steps[:1] == ("result",) else _OF_A_TOOL


def events_with_key(part: str) -> Events:
    """Return the events that have a value for one part of a rule's key; nothing is remembered for keys."""
    root, _, _ = part.partition(".")
    if part in ("session", "agent", "run", ALL_KEY) or root in ("labels", "agent", "run_id", "session"):
        return ALL_EVENTS
    if root == "tool":
        return events_with(Path("tool.name" if part == "tool" else part))
    if root == "args":
        return _OF_A_TOOL
    return frozenset(("user_message",)) if root == "user" else frozenset(("turn",))


def events_handled(kind: RuleType) -> Events:
    """Return the events a kind has handlers for."""
    return frozenset(event for handler, event in _HANDLERS.items() if _overrides(kind, handler))


def _overrides(kind: RuleType, handler: str) -> bool:
    mine: Any = getattr(kind, handler)
    return mine is not getattr(Rule, handler)


def never_holds(source: Json) -> str:
    """Return why a valid condition can never be true, or an empty text when it can."""
    if _constant(source) is False:
        return "it is never true: an empty any_of holds for nothing, and `not` of an empty list neither"
    return _contradiction(list(certain_leaves(source)))


def always_holds(source: Json) -> bool:
    """Whether a valid condition is true at every event."""
    return _constant(source) is True


def _constant(source: Json) -> bool | None:
    """Return True or False when the condition does not depend on the event, else None."""
    if isinstance(source, list):
        return _constant_of_all(source)
    group = next((key for key in GROUPS if key in source), None)
    if group is None:
        return None
    inner = source[group]
    if group == "not":
        value = _constant(inner)
        return None if value is None else not value
    return _constant(inner) if group == "all_of" or isinstance(inner, dict) else _constant_of_any(inner)


def _constant_of_all(items: list[Json]) -> bool | None:
    values = [_constant(item) for item in items]
    if False in values:
        return False
    return True if all(value is True for value in values) else None


def _constant_of_any(items: list[Json]) -> bool | None:
    values = [_constant(item) for item in items]
    if True in values or _has_opposites(items):
        return True
    return False if all(value is False for value in values) else None


def denies_itself(source: Json) -> bool:
    """Whether a valid condition asks for something and for its opposite at once."""
    items = source.get("all_of", []) if isinstance(source, dict) else source
    return isinstance(items, list) and _has_opposites(items)


def _has_opposites(items: list[Json]) -> bool:
    """Whether one of the conditions is the negation of another."""
    denied = [_bare(item["not"]) for item in items if isinstance(item, dict) and "not" in item]
    return any(json_equal(_bare(item), other) for other in denied for item in items)


def _bare(source: Json) -> Json:
    """Return a condition without the list or the group of one that it stands in."""
    while isinstance(source, list) and len(source) == 1:
        source = source[0]
    return source


def events_holding(source: Json) -> Events:
    """Return the events at which a valid condition can be true, by its paths alone."""
    if isinstance(source, list):
        return ALL_EVENTS.intersection(*map(events_holding, source))
    group = next((key for key in GROUPS if key in source), None)
    if group is None:
        asks_absence = source["op"] == "exists" and source.get("value") is False
        return ALL_EVENTS if asks_absence else events_with(Path(source["path"]))
    inner = source[group]
    if group == "not":
        return ALL_EVENTS
    if group == "any_of" and isinstance(inner, list):
        return frozenset().union(*map(events_holding, inner))
    return events_holding(inner)


def _contradiction(leaves: list[dict[str, Json]]) -> str:
    """Return which two leaves on one path exclude each other, or an empty text."""
    for number, leaf in enumerate(leaves[:50]):
        for other in leaves[number + 1 : 50]:
            if leaf["path"] == other["path"] and (_excludes(leaf, other) or _excludes(other, leaf)):
                first, second = (f"{each['op']} {show(each['value'])}" for each in (leaf, other))
                return f"it is never true: {show(leaf['path'])} cannot be {first} and {second} at once"
    return ""


_NO_EVENT: Final[Any] = None  # only `older_than` looks at the event


def _excludes(leaf: dict[str, Json], other: dict[str, Json]) -> bool:
    op, other_op = leaf["op"], other["op"]
    value: Json = leaf.get("value")
    other_value: Json = other.get("value")
    if other_op == "exists":
        return other_value is False and (op != "exists" or value is not False)
    if op in ("==", "in") and other_op not in ("exists", "older_than"):
        compare = OPERATORS[other_op](other_op, other_value)
        return not any(compare(item, _NO_EVENT) for item in ([value] if op == "==" else value))
    if op == "contains" and other_op == "not_contains":
        return json_equal(value, other_value)
    if op in (">", ">=") and other_op in ("<", "<="):
        strict = op == ">" or other_op == "<"
        return bool(value > other_value or (strict and value == other_value))
    return False
