"""Rules about calls: which tools are forbidden, which alone are allowed, and which are asked for."""

from __future__ import annotations

from dataclasses import replace

from stream_guard import Json
from stream_guard_compliance.compiling.context import (
    MOST_FOLLOWING,
    UNKNOWN_ACTION,
    CompileContext,
    CompiledReading,
    Form,
    names_of,
    one,
)
from stream_guard_compliance.compiling.described_tools import described
from stream_guard_compliance.compiling.file_changes import CHANGES, forbid_changes
from stream_guard_compliance.compiling.patterns import GREETING, literal
from stream_guard_compliance.reading.values import PER_AGENT, Reading


def forbid_tool(reading: Reading, context: CompileContext) -> CompiledReading:
    """No call of these tools."""
    if reading.shape in CHANGES:
        return forbid_changes(reading, context)
    if reading.described and not reading.items:
        found = described(reading.described, context)
        return replace(one("no_call", {"tool": found}), certain=False) if found else CompiledReading(why=UNKNOWN_ACTION)
    tools = ["*"] if reading.items == ("*",) else names_of(reading.items, context)
    return one("no_call", {"tool": tools})


def allow_only(reading: Reading, context: CompileContext) -> CompiledReading:
    """No call of other tools, or of these by another agent."""
    tools = names_of(reading.items, context)
    if not reading.by:
        return one("must_call_only", {"tool": tools})
    name = reading.by.removeprefix(f"{PER_AGENT}:")
    # Where the trace does not name the agent, the rule does not apply.
    rule: Form = {
        "kind": "no_call",
        "params": {"tool": tools},
        "when": {"path": "agent", "op": "matches", "value": "."},
        "unless": {"path": "agent", "op": "matches", "value": f"(?i){literal(name)}"},
    }
    return CompiledReading((rule,))


def require_tool(reading: Reading, context: CompileContext) -> CompiledReading:
    """A call of these tools before the session ends; of some sessions, only of those that call anything."""
    wanted = [reading.items] if reading.either else [(tool,) for tool in reading.items]
    if reading.shape == "each_turn":
        greets: Form = {"path": "response.content.0.text", "op": "matches", "value": GREETING}
        calls: Form = {"allowed": ["tool_use", "tool_calls"]}
        return CompiledReading(({"kind": "required_stop_reason", "params": calls, "unless": greets},))
    if reading.shape == "finish":
        return CompiledReading(tuple(_finishes(names_of(tools, context)) for tools in wanted))
    rules = [{"kind": "must_call", "params": {"tool": names_of(tools, context)}} for tools in wanted]
    return CompiledReading(tuple(rules))


def _finishes(tools: list[str]) -> Form:
    """Return the rule that work which called a tool ends with one of these; a greeting calls none."""
    begins: list[Json] = [
        {"path": "stop_reason", "op": "in", "value": ["tool_use", "tool_calls"]},
        *({"path": "response.content", "op": "not_contains", "value": tool} for tool in tools),
    ]
    must: Form = {"kind": "tool_call", "tool_name": list[Json](tools)}
    return {"kind": "must_followup", "params": {"trigger": begins, "must": must, "within_turns": MOST_FOLLOWING}}
