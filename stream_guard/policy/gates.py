"""What a rule can see: the events that have a value at a path, and gates that can never open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

from stream_guard.judge.conditions import OPERATORS, Condition, Leaf, Tree
from stream_guard.judge.json_values import json_equal
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
MOST_TRIED: Final = 8  # different leaves of a condition of which all answers are tried


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


def never_holds(condition: Condition) -> str:
    """Return why a condition can never be true, or an empty text when it can."""
    if condition.follows(lambda _leaf: None) is False:
        return "it is never true: an empty any_of holds for nothing, and `not` of an empty list neither"
    return _contradiction(list(condition.certain_leaves()))


def always_holds(condition: Condition) -> bool:
    """Whether a condition is true at every event."""
    return _outcomes(condition) == {True}


def denies_itself(condition: Condition) -> bool:
    """Whether a condition asks for something and for its opposite at once."""
    return _outcomes(condition) == {False}


def _outcomes(condition: Condition) -> set[bool | None]:
    """Return what a condition comes to, whichever of its leaves are true; None where they are too many to try."""
    tags = list({leaf.tag for leaf in condition.leaves})
    if len(tags) > MOST_TRIED:
        return {condition.follows(lambda _leaf: None)}
    return {
        _outcome(condition, dict(zip(tags, tried, strict=True))) for tried in product((True, False), repeat=len(tags))
    }


def _outcome(condition: Condition, holds: Mapping[int, bool]) -> bool | None:
    return condition.follows(lambda leaf: holds[leaf.tag])


def events_holding(tree: Tree) -> Events:
    """Return the events at which a condition can be true, by its paths alone."""
    if isinstance(tree, Leaf):
        asks_absence = tree.op == "exists" and tree.value is False
        return ALL_EVENTS if asks_absence else events_with(tree.path)
    group, parts = tree
    if group == "not":
        return ALL_EVENTS
    possible = [events_holding(part) for part in parts]
    return frozenset().union(*possible) if group == "any_of" else ALL_EVENTS.intersection(*possible)


def _contradiction(leaves: list[Leaf]) -> str:
    """Return which two leaves on one path exclude each other, or an empty text."""
    for number, leaf in enumerate(leaves[:50]):
        for other in leaves[number + 1 : 50]:
            if leaf.path == other.path and (_excludes(leaf, other) or _excludes(other, leaf)):
                first, second = (f"{each.op} {show(each.value)}" for each in (leaf, other))
                return f"it is never true: {show(leaf.path.text)} cannot be {first} and {second} at once"
    return ""


_NO_EVENT: Final[Any] = None  # only `older_than` looks at the event


def _excludes(leaf: Leaf, other: Leaf) -> bool:
    op, other_op = leaf.op, other.op
    value, other_value = leaf.value, other.value
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
