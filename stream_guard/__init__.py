"""stream_guard: one rule, the same verdict inline, on the stream and in batch.

These names are all a pack of rules, decoders or sinks needs; everything else is reached through its own module.
"""

from typing import TYPE_CHECKING, Any

from stream_guard.alerting.alerts import encode_alert
from stream_guard.decoding.json_decoder import JsonDecoder, read_json
from stream_guard.errors import DecodeError, Place, Problem, SinkError, StoreError
from stream_guard.hookspecs import hookimpl
from stream_guard.kafka.writer import Outgoing, TopicWriter
from stream_guard.language.arguments import parse_arguments, parse_json
from stream_guard.language.conditions import Condition
from stream_guard.language.durations import Duration
from stream_guard.language.paths import MISSING, Path, json_equal
from stream_guard.language.patterns import Regex, ToolPattern, literal
from stream_guard.language.similarity import Measure
from stream_guard.language.text_protocols import TextProtocol
from stream_guard.model import (
    EVENT_KINDS,
    Alert,
    Event,
    GateDecision,
    Hit,
    Json,
    SessionEnd,
    Settled,
    ToolCall,
    ToolResult,
    Turn,
    Unsure,
    UserMessage,
)
from stream_guard.ports import (
    Answer,
    AxisValues,
    Decoder,
    Dialect,
    DiffAxis,
    Document,
    Question,
    Record,
    RecordedTurn,
    Recording,
    Sides,
    Sink,
)
from stream_guard.rule import (
    SETTLED,
    Example,
    Need,
    NoState,
    Params,
    Rule,
    RuleType,
    State,
    TextPattern,
    ToolFilter,
    Verdict,
)
from stream_guard.storage.line_log import LineLog

if TYPE_CHECKING:
    from stream_guard_compliance import check_compliance

__all__ = [
    "EVENT_KINDS",
    "MISSING",
    "SETTLED",
    "Alert",
    "Answer",
    "AxisValues",
    "Condition",
    "DecodeError",
    "Decoder",
    "Dialect",
    "DiffAxis",
    "Document",
    "Duration",
    "Event",
    "Example",
    "GateDecision",
    "Hit",
    "Json",
    "JsonDecoder",
    "LineLog",
    "Measure",
    "Need",
    "NoState",
    "Outgoing",
    "Params",
    "Path",
    "Place",
    "Problem",
    "Question",
    "Record",
    "RecordedTurn",
    "Recording",
    "Regex",
    "Rule",
    "RuleType",
    "SessionEnd",
    "Settled",
    "Sides",
    "Sink",
    "SinkError",
    "State",
    "StoreError",
    "TextPattern",
    "TextProtocol",
    "ToolCall",
    "ToolFilter",
    "ToolPattern",
    "ToolResult",
    "TopicWriter",
    "Turn",
    "Unsure",
    "UserMessage",
    "Verdict",
    "check_compliance",
    "encode_alert",
    "hookimpl",
    "json_equal",
    "literal",
    "parse_arguments",
    "parse_json",
    "read_json",
]


def __getattr__(name: str) -> Any:
    """Load what is not for rule authors when it is asked for: their import stays light."""
    if name == "check_compliance":
        from stream_guard_compliance import check_compliance as found  # noqa: PLC0415

        return found
    if name == "FollowUp":
        from stream_guard.guard.follow_up import FollowUp as follow_up  # noqa: N813, PLC0415

        return follow_up
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
