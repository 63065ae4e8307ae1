"""The format ``auto``: the shape of each record tells its format."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final, Self

from stream_guard import DecodeError, Event, Json, JsonDecoder, Memory, Record
from stream_guard_formats.agentdojo import AgentDojoDecoder
from stream_guard_formats.agentlog import AgentlogDecoder
from stream_guard_formats.anthropic_messages import AnthropicDecoder
from stream_guard_formats.claude_code import ClaudeCodeDecoder
from stream_guard_formats.cloudevents import CloudEventsDecoder
from stream_guard_formats.detection import detect
from stream_guard_formats.langchain import LangChainDecoder
from stream_guard_formats.langfuse import LangfuseDecoder
from stream_guard_formats.native import NativeDecoder
from stream_guard_formats.openai_chat import OpenAIChatDecoder
from stream_guard_formats.openinference import OpenInferenceDecoder
from stream_guard_formats.otlp import OtlpJsonDecoder
from stream_guard_formats.step_telemetry import StepTelemetryDecoder
from stream_guard_formats.tau import Tau2Decoder, TauBenchDecoder

DECODERS: Final[Mapping[str, type[Any]]] = {
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

_logger = logging.getLogger(__name__)


class AutoDecoder(JsonDecoder):
    """Detects the format of each record by its shape. One file may hold several formats.

    The first record of each format is logged, with the confidence. Every record is parsed once more than with a
    named format, so a long run should name it.
    """

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self._decoders: dict[str, Any] = {name: decoder(strict_keys=strict_keys) for name, decoder in DECODERS.items()}
        self._detected: set[str] = set()

    @classmethod
    def configure(cls, settings: Any) -> Self:
        """Return a decoder for the settings under ``decode``."""
        decoder = cls(strict_keys=settings.decode.strict_keys)
        decoder.use_otlp(OtlpJsonDecoder.configure(settings))
        return decoder

    def use_otlp(self, otlp: OtlpJsonDecoder) -> None:
        """Read OTLP with this decoder."""
        self._decoders = {**self._decoders, "otlp-json": otlp}

    def remember(self, memory: Memory) -> Self:
        """Return a copy that lets spans wait, and keeps them in ``memory``."""
        holding = copy(self)
        holding.use_otlp(self._decoders["otlp-json"].remember(memory))
        return holding

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Advance the clock by seconds in which no record came. Return the events whose wait is over."""
        events: Sequence[Event] = self._decoders["otlp-json"].elapse(seconds)
        return events

    def finish(self) -> Sequence[Event]:
        """Return the events of all spans that wait. No further record will come."""
        events: Sequence[Event] = self._decoders["otlp-json"].finish()
        return events

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
        events: Sequence[Event] = self._decoders[name].decode(record)
        return events
