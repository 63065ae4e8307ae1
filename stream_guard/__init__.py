"""stream_guard: one rule, the same verdict inline, on the stream and in batch.

These names are all a pack of rules, decoders or sinks needs; everything else is reached through its own module.
"""

from stream_guard.arguments import parse_arguments, parse_json
from stream_guard.conditions import Condition
from stream_guard.durations import Duration
from stream_guard.errors import DecodeError, Place, Problem, SinkError
from stream_guard.hookspecs import hookimpl
from stream_guard.kafka.writer import Outgoing, TopicWriter
from stream_guard.line_log import LineLog
from stream_guard.model import (
    EVENT_KINDS,
    Alert,
    Event,
    GateDecision,
    Hit,
    Json,
    SessionEnd,
    ToolCall,
    ToolResult,
    Turn,
    Unsure,
    UserMessage,
)
from stream_guard.paths import MISSING, Path, json_equal
from stream_guard.patterns import Regex, ToolPattern, literal
from stream_guard.ports import AxisValues, Dialect, DiffAxis, Document, Record, RecordedTurn, Recording, Sides
from stream_guard.rule import Example, Need, NoState, Params, Rule, RuleType, State, TextPattern

__all__ = [
    "EVENT_KINDS",
    "MISSING",
    "Alert",
    "AxisValues",
    "Condition",
    "DecodeError",
    "Dialect",
    "DiffAxis",
    "Document",
    "Duration",
    "Event",
    "Example",
    "GateDecision",
    "Hit",
    "Json",
    "LineLog",
    "Need",
    "NoState",
    "Outgoing",
    "Params",
    "Path",
    "Place",
    "Problem",
    "Record",
    "RecordedTurn",
    "Recording",
    "Regex",
    "Rule",
    "RuleType",
    "SessionEnd",
    "Sides",
    "SinkError",
    "State",
    "TextPattern",
    "ToolCall",
    "ToolPattern",
    "ToolResult",
    "TopicWriter",
    "Turn",
    "Unsure",
    "UserMessage",
    "hookimpl",
    "json_equal",
    "literal",
    "parse_arguments",
    "parse_json",
]
