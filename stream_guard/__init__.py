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

    from stream_guard.alerting.alerts import encode_alert as encode_alert
    from stream_guard.alerting.alerts import make_alert as make_alert
    from stream_guard.chat_endpoint import ask_chat as ask_chat
    from stream_guard.chat_endpoint import chat_cost as chat_cost
    from stream_guard.chat_endpoint import is_counted as is_counted
    from stream_guard.decoding.json_decoder import JsonDecoder as JsonDecoder
    from stream_guard.decoding.json_decoder import parts_of as parts_of
    from stream_guard.decoding.json_decoder import read_json as read_json
    from stream_guard.diff_axes import AxisValues as AxisValues
    from stream_guard.diff_axes import DiffAxis as DiffAxis
    from stream_guard.diff_axes import RecordedCall as RecordedCall
    from stream_guard.diff_axes import RecordedTurn as RecordedTurn
    from stream_guard.diff_axes import Recording as Recording
    from stream_guard.diff_axes import Sides as Sides
    from stream_guard.distribution import install_line as install_line
    from stream_guard.distribution import own_version as own_version
    from stream_guard.errors import DecodeError as DecodeError
    from stream_guard.errors import FeatureNotEnabledError as FeatureNotEnabledError
    from stream_guard.errors import Place as Place
    from stream_guard.errors import PluginError as PluginError
    from stream_guard.errors import PolicyError as PolicyError
    from stream_guard.errors import Problem as Problem
    from stream_guard.errors import SettingsError as SettingsError
    from stream_guard.errors import SinkError as SinkError
    from stream_guard.errors import SourceError as SourceError
    from stream_guard.errors import StoreError as StoreError
    from stream_guard.errors import StreamGuardError as StreamGuardError
    from stream_guard.errors import TokenError as TokenError
    from stream_guard.explaining.timeline import SessionTimeline as SessionTimeline
    from stream_guard.explaining.timeline import follow_session as follow_session
    from stream_guard.guard.clocks import ReplayClock as ReplayClock
    from stream_guard.guard.follow_up import FollowUp as FollowUp
    from stream_guard.guard.gate import Gate as Gate
    from stream_guard.guard.inline import Guard as Guard
    from stream_guard.history.database import open_database as open_database
    from stream_guard.hookspecs import hookimpl as hookimpl
    from stream_guard.http.traceparent import span_place as span_place
    from stream_guard.judge.arguments import parse_arguments as parse_arguments
    from stream_guard.judge.arguments import parse_json as parse_json
    from stream_guard.judge.arguments import payload_texts as payload_texts
    from stream_guard.judge.conditions import Condition as Condition
    from stream_guard.judge.counts import Counts as Counts
    from stream_guard.judge.forgotten import Sketch as Sketch
    from stream_guard.judge.forgotten import sketch_number as sketch_number
    from stream_guard.judge.json_values import check_json as check_json
    from stream_guard.judge.json_values import json_equal as json_equal
    from stream_guard.judge.judge import Judge as Judge
    from stream_guard.judge.limits import Duration as Duration
    from stream_guard.judge.model import EVENT_KINDS as EVENT_KINDS
    from stream_guard.judge.model import Action as Action
    from stream_guard.judge.model import Alert as Alert
    from stream_guard.judge.model import Decision as Decision
    from stream_guard.judge.model import Event as Event
    from stream_guard.judge.model import Finding as Finding
    from stream_guard.judge.model import GateDecision as GateDecision
    from stream_guard.judge.model import Hit as Hit
    from stream_guard.judge.model import Inquiry as Inquiry
    from stream_guard.judge.model import Json as Json
    from stream_guard.judge.model import SessionEnd as SessionEnd
    from stream_guard.judge.model import Severity as Severity
    from stream_guard.judge.model import Shortfall as Shortfall
    from stream_guard.judge.model import ToolCall as ToolCall
    from stream_guard.judge.model import ToolResult as ToolResult
    from stream_guard.judge.model import Turn as Turn
    from stream_guard.judge.model import Unsure as Unsure
    from stream_guard.judge.model import UserMessage as UserMessage
    from stream_guard.judge.paths import MISSING as MISSING
    from stream_guard.judge.paths import Path as Path
    from stream_guard.judge.patterns import Regex as Regex
    from stream_guard.judge.patterns import ToolPattern as ToolPattern
    from stream_guard.judge.patterns import literal as literal
    from stream_guard.judge.patterns import tool_words as tool_words
    from stream_guard.judge.ports import Answer as Answer
    from stream_guard.judge.rule import SETTLED as SETTLED
    from stream_guard.judge.rule import Example as Example
    from stream_guard.judge.rule import Need as Need
    from stream_guard.judge.rule import NoState as NoState
    from stream_guard.judge.rule import Params as Params
    from stream_guard.judge.rule import Rule as Rule
    from stream_guard.judge.rule import RuleType as RuleType
    from stream_guard.judge.rule import Settled as Settled
    from stream_guard.judge.rule import State as State
    from stream_guard.judge.rule import TextPattern as TextPattern
    from stream_guard.judge.rule import ToolFilter as ToolFilter
    from stream_guard.judge.rule import Verdict as Verdict
    from stream_guard.judge.spec import Policy as Policy
    from stream_guard.judge.spec import RuleSpec as RuleSpec
    from stream_guard.kafka.writer import Outgoing as Outgoing
    from stream_guard.kafka.writer import TopicWriter as TopicWriter
    from stream_guard.pipeline import open_table as open_table
    from stream_guard.ports import Command as Command
    from stream_guard.ports import Decoder as Decoder
    from stream_guard.ports import Dialect as Dialect
    from stream_guard.ports import Document as Document
    from stream_guard.ports import LoginToken as LoginToken
    from stream_guard.ports import Memory as Memory
    from stream_guard.ports import PolicyPack as PolicyPack
    from stream_guard.ports import ProbedSink as ProbedSink
    from stream_guard.ports import Question as Question
    from stream_guard.ports import Record as Record
    from stream_guard.ports import ResolvingSink as ResolvingSink
    from stream_guard.ports import Sink as Sink
    from stream_guard.ports import TokenSource as TokenSource
    from stream_guard.redaction import redact as redact
    from stream_guard.redaction import redact_text as redact_text
    from stream_guard.registry import Registry as Registry
    from stream_guard.registry import build_registry as build_registry
    from stream_guard.running.front_door import RunSummary as RunSummary
    from stream_guard.running.front_door import evaluate as evaluate
    from stream_guard.running.front_door import load_policy as load_policy
    from stream_guard.running.front_door import parse_policy as parse_policy
    from stream_guard.running.front_door import read_events as read_events
    from stream_guard.running.front_door import run as run
    from stream_guard.running.recordings import RecordedEvents as RecordedEvents
    from stream_guard.settings import JudgeSettings as JudgeSettings
    from stream_guard.settings import RouteSettings as RouteSettings
    from stream_guard.settings import Settings as Settings
    from stream_guard.settings import TextProtocol as TextProtocol
    from stream_guard.settings import load_settings as load_settings
    from stream_guard.similarity import Measure as Measure
    from stream_guard.storage.line_log import LineLog as LineLog

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
    "stream_guard.settings": ("JudgeSettings", "RouteSettings", "Settings", "TextProtocol", "load_settings"),
    "stream_guard.storage.line_log": ("LineLog",),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}
__all__ = list(_MODULE_OF)
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
