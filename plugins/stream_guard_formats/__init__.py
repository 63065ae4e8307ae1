"""Decoders: the formats that records come in."""

from __future__ import annotations

from typing import Any

from stream_guard import hookimpl
from stream_guard_formats.agentdojo import AgentDojoDecoder
from stream_guard_formats.agentlog import AgentlogDecoder
from stream_guard_formats.anthropic_messages import AnthropicDecoder
from stream_guard_formats.claude_code import ClaudeCodeDecoder
from stream_guard_formats.langchain import LangChainDecoder
from stream_guard_formats.langfuse import LangfuseDecoder
from stream_guard_formats.native import NativeDecoder
from stream_guard_formats.openai_chat import OpenAIChatDecoder
from stream_guard_formats.openinference import OpenInferenceDecoder
from stream_guard_formats.otlp import OtlpJsonDecoder
from stream_guard_formats.tau import Tau2Decoder, TauBenchDecoder


@hookimpl
def stream_guard_decoders() -> dict[str, type[Any]]:
    """Return the decoders of this pack, by format name."""
    return {
        "agentdojo": AgentDojoDecoder,
        "agentlog": AgentlogDecoder,
        "anthropic": AnthropicDecoder,
        "claude-code": ClaudeCodeDecoder,
        "langchain": LangChainDecoder,
        "langfuse": LangfuseDecoder,
        "native": NativeDecoder,
        "openai-chat": OpenAIChatDecoder,
        "openinference": OpenInferenceDecoder,
        "otlp-json": OtlpJsonDecoder,
        "tau-bench": TauBenchDecoder,
        "tau2": Tau2Decoder,
    }
