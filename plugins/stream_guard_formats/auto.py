"""The format ``auto``: each record is read in the format that its shape speaks for."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final, Self

from stream_guard import DecodeError, Event, Json, JsonDecoder, Record
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
from stream_guard_formats.steps import StepsDecoder
from stream_guard_formats.stitching import Memory
from stream_guard_formats.tau import Tau2Decoder, TauBenchDecoder

READERS: Final[Mapping[str, type[Any]]] = {
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
    "steps": StepsDecoder,
    "tau-bench": TauBenchDecoder,
    "tau2": Tau2Decoder,
}
_ENOUGH: Final = 0.5

_logger = logging.getLogger(__name__)


class AutoDecoder(JsonDecoder):
    """Reads records of any format it can tell by their shape, each for itself: a file may hold several.

    The first time a format is met it says so, with how sure it is. Reading costs one more parse of every record,
    so a run that goes on for long should name its format.
    """

    def __init__(self, *, strict_keys: bool = True) -> None:
        super().__init__(strict_keys=strict_keys)
        self._decoders: dict[str, Any] = {name: reader(strict_keys=strict_keys) for name, reader in READERS.items()}
        self._met: set[str] = set()

    @classmethod
    def configure(cls, settings: Any) -> Self:
        """Return a decoder as the settings under ``decode`` want it."""
        found = cls(strict_keys=settings.decode.strict_keys)
        found.put(OtlpJsonDecoder.configure(settings))
        return found

    def put(self, otlp: OtlpJsonDecoder) -> None:
        """Read OTLP with this decoder."""
        self._decoders = {**self._decoders, "otlp-json": otlp}

    def remember(self, memory: Memory) -> Self:
        """Return a decoder like this one that holds spans back, and remembers in ``memory``."""
        found = copy(self)
        found.put(self._decoders["otlp-json"].remember(memory))
        return found

    def elapse(self, seconds: float) -> Sequence[Event]:
        """Return what has waited long enough now that so much time passed in which no record came."""
        waited: Sequence[Event] = self._decoders["otlp-json"].elapse(seconds)
        return waited

    def finish(self) -> Sequence[Event]:
        """Return all that is held back: nothing more will come."""
        held: Sequence[Event] = self._decoders["otlp-json"].finish()
        return held

    def decode(self, record: Record) -> Sequence[Event]:
        """Return what the likeliest decoder makes of the record, or raise DecodeError."""
        if any(name == "ce_specversion" for name, _ in record.headers):
            return self._decode_as("cloudevents", 1.0, record)
        return super().decode(record)

    def read(self, data: Json, record: Record) -> Sequence[Event]:
        """Return what the decoder of the likeliest format makes of the record, or raise DecodeError."""
        name, confidence = detect(data)
        if confidence < _ENOUGH:
            raise DecodeError(f"no format is known by this shape; name one of {', '.join(READERS)} with --from-format")
        return self._decode_as(name, confidence, record)

    def _decode_as(self, name: str, confidence: float, record: Record) -> Sequence[Event]:
        if name not in self._met:
            self._met.add(name)
            _logger.warning("%s: read as %s (confidence %.2f)", record.origin or "input", name, confidence)
        events: Sequence[Event] = self._decoders[name].decode(record)
        return events
