"""stream_guard: one rule, the same verdict inline, on the stream and in batch.

These names are all a rule pack needs; everything else is reached through its own module.
"""

from stream_guard.conditions import MISSING, Condition, Path, json_equal
from stream_guard.durations import Duration
from stream_guard.errors import DecodeError
from stream_guard.hookspecs import hookimpl
from stream_guard.model import (
    Event,
    GateDecision,
    Hit,
    Json,
    SessionEnd,
    ToolCall,
    ToolResult,
    Turn,
    UserMessage,
)
from stream_guard.patterns import Regex, ToolPattern, literal
from stream_guard.rule import Example, Need, NoState, Params, Rule, RuleType, State, TextPattern

__all__ = [
    "MISSING",
    "Condition",
    "DecodeError",
    "Duration",
    "Event",
    "Example",
    "GateDecision",
    "Hit",
    "Json",
    "Need",
    "NoState",
    "Params",
    "Path",
    "Regex",
    "Rule",
    "RuleType",
    "SessionEnd",
    "State",
    "TextPattern",
    "ToolCall",
    "ToolPattern",
    "ToolResult",
    "Turn",
    "UserMessage",
    "hookimpl",
    "json_equal",
    "literal",
]
