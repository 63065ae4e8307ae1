"""The format ``auto``: detects the format of each record by its shape."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple, Self

from stream_guard import EVENT_KINDS, DecodeError, Decoder, Event, Json, JsonDecoder, Memory, Record
from stream_guard_formats.agentdojo import AgentDojoDecoder
from stream_guard_formats.agentlog import AgentlogDecoder
from stream_guard_formats.anthropic_messages import AnthropicDecoder
from stream_guard_formats.claude_code import ClaudeCodeDecoder
from stream_guard_formats.cloudevents import CloudEventsDecoder
from stream_guard_formats.langchain import LangChainDecoder
from stream_guard_formats.langfuse import LangfuseDecoder
from stream_guard_formats.native import NativeDecoder
from stream_guard_formats.openai_chat import OpenAIChatDecoder
from stream_guard_formats.openinference import OpenInferenceDecoder
from stream_guard_formats.otlp import OtlpJsonDecoder
from stream_guard_formats.reading import object_at
from stream_guard_formats.step_telemetry import StepTelemetryDecoder
from stream_guard_formats.tau import Tau2Decoder, TauBenchDecoder

DECODERS: Final[Mapping[str, type[Decoder]]] = {
    "agentdojo": AgentDojoDecoder,
    "agentlog": AgentlogDecoder,
    "anthropic": AnthropicDecoder,
    "claude-code": ClaudeCodeDecoder,
    "cloudevents": CloudEventsDecoder,
    "langchain": LangChainDecoder,
    "langfuse": LangfuseDecoder,
    "native": NativeDecoder,
    "openai-chat": OpenAIChatDecoder,
    "openinference": OpenInferenceDecoder,
    "otlp-json": OtlpJsonDecoder,
    "steps": StepTelemetryDecoder,
    "tau-bench": TauBenchDecoder,
    "tau2": Tau2Decoder,
}
_LEAST_CONFIDENCE: Final = 0.5
_SESSION_LINES: Final = ("summary", "file-history-snapshot", "queue-operation", "pr-link")
# Fields that only one format has at the top of its records, all of them together; the format; the confidence.
_MARKS: Final[tuple[tuple[tuple[str, ...], str, float], ...]] = (
    (("specversion", "type", "source"), "cloudevents", 1.0),
    (("resourceSpans",), "otlp-json", 1.0),
    (("resourceLogs",), "otlp-json", 1.0),
    (("trace", "observations"), "langfuse", 1.0),
    (("id", "kind", "payload"), "agentlog", 0.95),
    (("traj",), "tau-bench", 0.95),
    (("suite_name", "messages"), "agentdojo", 0.95),
    (("user_task_id", "messages"), "agentdojo", 0.95),
    (("termination_reason", "messages"), "tau2", 0.95),
    (("episode_id", "steps"), "steps", 0.95),
    (("trace_id", "spans"), "openinference", 0.95),
    (("sessionId", "type", "uuid"), "claude-code", 0.95),
    (("sessionId", "type"), "claude-code", 0.8),
    (("lc_agent_name", "messages"), "langchain", 0.9),
)

_logger = logging.getLogger(__name__)


class DetectedFormat(NamedTuple):
    """A format, and the confidence from 0 to 1 that a record has it."""

    name: str
    confidence: float


_UNKNOWN: Final = DetectedFormat("", 0.0)


class AutoDecoder(JsonDecoder):
    """Detects the format of each record by its shape. One file may hold several formats.

    The first record of each format is logged, with the confidence. Every record is parsed once more than with a
    named format, so a long run should name it.
    """

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self._decoders = {name: decoder(strict_keys=strict_keys) for name, decoder in DECODERS.items()}
        self._otlp = OtlpJsonDecoder(strict_keys=strict_keys)
        self._detected: set[str] = set()

    @classmethod
    def configure(cls, settings: Any) -> Self:
        """Return a decoder for the settings under ``decode``."""
        decoder = cls(strict_keys=settings.decode.strict_keys)
        decoder._otlp = OtlpJsonDecoder.configure(settings)  # of its own class
        return decoder

    def remember(self, memory: Memory) -> Self:
        """Return a copy that lets spans wait, and keeps them in ``memory``."""
        holding = copy(self)
        holding._otlp = self._otlp.remember(memory)  # noqa: SLF001  # of its own class
        return holding

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Advance the clock by seconds in which no record came. Return the events whose wait is over."""
        return self._otlp.elapse(seconds)

    def finish(self) -> Sequence[Event]:
        """Return the events of all spans that wait. No further record will come."""
        return self._otlp.finish()

    def decode(self, record: Record) -> Sequence[Event]:
        """Return the events that the decoder of the detected format finds, or raise DecodeError."""
        if any(name == "ce_specversion" for name, _ in record.headers):
            return self._decode_as("cloudevents", 1.0, record)
        return super().decode(record)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Detect the format of the record. Return the events that its decoder finds, or raise DecodeError."""
        name, confidence = detect(data)
        if confidence < _LEAST_CONFIDENCE:
            raise DecodeError(f"no format is known by this shape; name one of {', '.join(DECODERS)} with --from-format")
        return self._decode_as(name, confidence, record)

    def _decode_as(self, name: str, confidence: float, record: Record) -> Sequence[Event]:
        if name not in self._detected:
            self._detected.add(name)
            _logger.warning("%s: read as %s (confidence %.2f)", record.origin or "input", name, confidence)
        decoder = self._otlp if name == "otlp-json" else self._decoders[name]
        return decoder.decode(record)


def detect(data: Json) -> DetectedFormat:
    """Return the most likely format of a parsed record."""
    if isinstance(data, list):
        spans = bool(data) and isinstance(data[0], dict) and "span_attributes" in data[0]
        return DetectedFormat("openinference", 0.9) if spans else _by_messages(data)
    if not isinstance(data, dict):
        return _UNKNOWN
    return next(
        (DetectedFormat(form, sure) for names, form, sure in _MARKS if all(name in data for name in names)), None
    ) or (_by_parts(data))


def _by_parts(data: dict[str, Json]) -> DetectedFormat:
    """Detect the format by values and by fields below the top of a record."""
    if data.get("kind") in EVENT_KINDS and "session_id" in data:
        return DetectedFormat("native", 1.0)
    if "resourceSpans" in object_at(data, "traces") or "resourceLogs" in object_at(data, "logs"):
        return DetectedFormat("otlp-json", 1.0)
    if data.get("type") in _SESSION_LINES:
        return DetectedFormat("claude-code", 0.8)
    for holder in (data, object_at(data, "request"), object_at(data, "values")):
        if isinstance(messages := holder.get("messages"), list):
            return _by_messages(messages)
    return _UNKNOWN


def _by_messages(messages: list[Json]) -> DetectedFormat:
    """Detect the format of a conversation by its messages. Plain messages look the same in all formats."""
    plain = False
    for message in messages:
        if not isinstance(message, dict):
            return _UNKNOWN
        if message.get("lc") == 1 or message.get("type") in ("human", "ai", "AIMessageChunk"):
            return DetectedFormat("langchain", 0.9)
        if message.get("role") == "tool" or message.get("tool_calls"):
            return DetectedFormat("openai-chat", 0.9)
        content = message.get("content")
        if isinstance(content, list) and any(_is_anthropic(block) for block in content):
            return DetectedFormat("anthropic", 0.9)
        plain = plain or isinstance(message.get("role"), str)
    return DetectedFormat("openai-chat", 0.5) if plain else _UNKNOWN


def _is_anthropic(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") in ("tool_use", "tool_result", "thinking")
