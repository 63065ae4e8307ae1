"""stream_guard: one rule, the same verdict inline, on the stream and in batch.

The front door. To use it: ``load_policy``, then ``Guard(policy).check(call)`` before a tool runs, ``evaluate(events,
policy)`` over recordings, ``run(source, policy, alerts=[...])`` on a stream. To extend it: the base types of rules,
decoders, sinks, dialects and commands. These names, ``stream_guard.commands``, ``stream_guard.reports``,
``stream_guard.documents`` and ``stream_guard.testing`` are the public interface; every other module may change.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # what a type checker takes for true; typing itself takes long to import for a hook
if TYPE_CHECKING:
    from typing import Any, Final

    from stream_guard.alerting.alerts import encode_alert, make_alert
    from stream_guard.chat_endpoint import ask_chat, chat_cost, is_counted
    from stream_guard.decoding.json_decoder import JsonDecoder, parts_of, read_json
    from stream_guard.diff_axes import AxisValues, DiffAxis, RecordedCall, RecordedTurn, Recording, Sides
    from stream_guard.distribution import install_line, own_version
    from stream_guard.errors import (
        DecodeError,
        FeatureNotEnabledError,
        Place,
        PluginError,
        PolicyError,
        Problem,
        SettingsError,
        SinkError,
        SourceError,
        StoreError,
        StreamGuardError,
        TokenError,
    )
    from stream_guard.explaining.timeline import SessionTimeline, follow_session
    from stream_guard.guard.clocks import ReplayClock
    from stream_guard.guard.follow_up import FollowUp
    from stream_guard.guard.gate import Gate
    from stream_guard.guard.inline import Guard
    from stream_guard.history.database import open_database
    from stream_guard.hookspecs import hookimpl
    from stream_guard.http.traceparent import span_place
    from stream_guard.judge.arguments import parse_arguments, parse_json, payload_texts
    from stream_guard.judge.conditions import Condition
    from stream_guard.judge.counts import Counts
    from stream_guard.judge.forgotten import Sketch, sketch_number
    from stream_guard.judge.json_values import check_json, json_equal
    from stream_guard.judge.judge import Judge
    from stream_guard.judge.limits import Duration
    from stream_guard.judge.model import (
        EVENT_KINDS,
        Action,
        Alert,
        Decision,
        Event,
        Finding,
        GateDecision,
        Hit,
        Inquiry,
        Json,
        SessionEnd,
        Severity,
        Shortfall,
        ToolCall,
        ToolResult,
        Turn,
        Unsure,
        UserMessage,
    )
    from stream_guard.judge.paths import MISSING, Path
    from stream_guard.judge.patterns import Regex, ToolPattern, literal, tool_words
    from stream_guard.judge.ports import Answer
    from stream_guard.judge.rule import (
        SETTLED,
        Example,
        Need,
        NoState,
        Params,
        Rule,
        RuleType,
        Settled,
        State,
        TextPattern,
        ToolFilter,
        Verdict,
    )
    from stream_guard.judge.spec import Policy, RuleSpec
    from stream_guard.kafka.writer import Outgoing, TopicWriter
    from stream_guard.pipeline import open_table
    from stream_guard.ports import (
        Command,
        Decoder,
        Dialect,
        Document,
        LoginToken,
        Memory,
        PolicyPack,
        ProbedSink,
        Question,
        Record,
        ResolvingSink,
        Sink,
        TokenSource,
    )
    from stream_guard.redaction import redact, redact_text
    from stream_guard.registry import Registry, build_registry
    from stream_guard.running.front_door import (
        RunSummary,
        evaluate,
        load_policy,
        parse_policy,
        read_events,
        run,
    )
    from stream_guard.running.recordings import RecordedEvents
    from stream_guard.settings import JudgeSettings, RouteSettings, Settings, load_settings
    from stream_guard.settings.sections import TextProtocol
    from stream_guard.similarity import Measure
    from stream_guard.storage.line_log import LineLog

__all__ = [
    "EVENT_KINDS",
    "MISSING",
    "SETTLED",
    "Action",
    "Alert",
    "Answer",
    "AxisValues",
    "Command",
    "Condition",
    "Counts",
    "Decision",
    "DecodeError",
    "Decoder",
    "Dialect",
    "DiffAxis",
    "Document",
    "Duration",
    "Event",
    "Example",
    "FeatureNotEnabledError",
    "Finding",
    "FollowUp",
    "Gate",
    "GateDecision",
    "Guard",
    "Hit",
    "Inquiry",
    "Json",
    "JsonDecoder",
    "Judge",
    "JudgeSettings",
    "LineLog",
    "LoginToken",
    "Measure",
    "Memory",
    "Need",
    "NoState",
    "Outgoing",
    "Params",
    "Path",
    "Place",
    "PluginError",
    "Policy",
    "PolicyError",
    "PolicyPack",
    "ProbedSink",
    "Problem",
    "Question",
    "Record",
    "RecordedCall",
    "RecordedEvents",
    "RecordedTurn",
    "Recording",
    "Regex",
    "Registry",
    "ReplayClock",
    "ResolvingSink",
    "RouteSettings",
    "Rule",
    "RuleSpec",
    "RuleType",
    "RunSummary",
    "SessionEnd",
    "SessionTimeline",
    "Settings",
    "SettingsError",
    "Settled",
    "Severity",
    "Shortfall",
    "Sides",
    "Sink",
    "SinkError",
    "Sketch",
    "SourceError",
    "State",
    "StoreError",
    "StreamGuardError",
    "TextPattern",
    "TextProtocol",
    "TokenError",
    "TokenSource",
    "ToolCall",
    "ToolFilter",
    "ToolPattern",
    "ToolResult",
    "TopicWriter",
    "Turn",
    "Unsure",
    "UserMessage",
    "Verdict",
    "ask_chat",
    "build_registry",
    "chat_cost",
    "check_json",
    "encode_alert",
    "evaluate",
    "follow_session",
    "hookimpl",
    "install_line",
    "is_counted",
    "json_equal",
    "literal",
    "load_policy",
    "load_settings",
    "make_alert",
    "open_database",
    "open_table",
    "own_version",
    "parse_arguments",
    "parse_json",
    "parse_policy",
    "parts_of",
    "payload_texts",
    "read_events",
    "read_json",
    "redact",
    "redact_text",
    "run",
    "sketch_number",
    "span_place",
    "tool_words",
]

# Where each name lives. It is imported on first use: an import of the package costs next to nothing.
_MODULES: Final = {
    "stream_guard.alerting.alerts": ("encode_alert", "make_alert"),
    "stream_guard.chat_endpoint": ("ask_chat", "chat_cost", "is_counted"),
    "stream_guard.decoding.json_decoder": ("JsonDecoder", "parts_of", "read_json"),
    "stream_guard.diff_axes": ("AxisValues", "DiffAxis", "RecordedCall", "RecordedTurn", "Recording", "Sides"),
    "stream_guard.distribution": ("install_line", "own_version"),
    "stream_guard.errors": (
        "DecodeError",
        "FeatureNotEnabledError",
        "Place",
        "PluginError",
        "PolicyError",
        "Problem",
        "SettingsError",
        "SinkError",
        "SourceError",
        "StoreError",
        "StreamGuardError",
        "TokenError",
    ),
    "stream_guard.explaining.timeline": ("SessionTimeline", "follow_session"),
    "stream_guard.guard.clocks": ("ReplayClock",),
    "stream_guard.guard.follow_up": ("FollowUp",),
    "stream_guard.guard.gate": ("Gate",),
    "stream_guard.guard.inline": ("Guard",),
    "stream_guard.history.database": ("open_database",),
    "stream_guard.hookspecs": ("hookimpl",),
    "stream_guard.judge.forgotten": ("Sketch", "sketch_number"),
    "stream_guard.judge.json_values": ("check_json", "json_equal"),
    "stream_guard.judge.limits": ("Duration",),
    "stream_guard.kafka.writer": ("Outgoing", "TopicWriter"),
    "stream_guard.judge.arguments": ("parse_arguments", "parse_json", "payload_texts"),
    "stream_guard.judge.conditions": ("Condition",),
    "stream_guard.judge.judge": ("Judge",),
    "stream_guard.judge.paths": ("MISSING", "Path"),
    "stream_guard.judge.patterns": ("Regex", "ToolPattern", "literal", "tool_words"),
    "stream_guard.http.traceparent": ("span_place",),
    "stream_guard.similarity": ("Measure",),
    "stream_guard.settings.sections": ("TextProtocol",),
    "stream_guard.judge.model": (
        "Action",
        "Alert",
        "Decision",
        "EVENT_KINDS",
        "Event",
        "Finding",
        "GateDecision",
        "Hit",
        "Inquiry",
        "Json",
        "SessionEnd",
        "Severity",
        "Shortfall",
        "ToolCall",
        "ToolResult",
        "Turn",
        "Unsure",
        "UserMessage",
    ),
    "stream_guard.judge.counts": ("Counts",),
    "stream_guard.pipeline": ("open_table",),
    "stream_guard.judge.spec": ("Policy", "RuleSpec"),
    "stream_guard.judge.ports": ("Answer",),
    "stream_guard.ports": (
        "Command",
        "Decoder",
        "Dialect",
        "Document",
        "LoginToken",
        "Memory",
        "PolicyPack",
        "ProbedSink",
        "Question",
        "Record",
        "ResolvingSink",
        "Sink",
        "TokenSource",
    ),
    "stream_guard.redaction": ("redact", "redact_text"),
    "stream_guard.registry": ("Registry", "build_registry"),
    "stream_guard.judge.rule": (
        "SETTLED",
        "Example",
        "Need",
        "NoState",
        "Params",
        "Rule",
        "RuleType",
        "Settled",
        "State",
        "TextPattern",
        "ToolFilter",
        "Verdict",
    ),
    "stream_guard.running.front_door": ("RunSummary", "evaluate", "load_policy", "parse_policy", "read_events", "run"),
    "stream_guard.running.recordings": ("RecordedEvents",),
    "stream_guard.settings": ("JudgeSettings", "RouteSettings", "Settings", "load_settings"),
    "stream_guard.storage.line_log": ("LineLog",),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}
# Names that are others now, with the version that no longer has them: until then they work, and warn (docs/public.md).
_RENAMED: Final[dict[str, tuple[str, str]]] = {}


if not TYPE_CHECKING:  # a type checker must find a misspelt name

    def __getattr__(name: str) -> Any:
        if name in _RENAMED:
            return _renamed(name)
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return value

    def _renamed(old: str) -> Any:
        from warnings import warn  # noqa: PLC0415  # hardly ever

        new, last = _RENAMED[old]
        # Of the line that used it: past this function and __getattr__.
        warn(f"stream_guard.{old} is stream_guard.{new} now; {last} no longer has the old name", DeprecationWarning, 3)
        return __getattr__(new)


def __dir__() -> list[str]:
    return sorted(__all__)
