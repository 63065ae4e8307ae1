"""The formats of this pack that are known by the shape of a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stream_guard import Decoder
from stream_guard_formats.chat.anthropic_messages import AnthropicDecoder
from stream_guard_formats.chat.langchain import LangChainDecoder
from stream_guard_formats.chat.openai_chat import AgentChatDecoder, OpenAIChatDecoder
from stream_guard_formats.chat.openai_responses import OpenAIResponsesDecoder
from stream_guard_formats.files.action_steps import ActionStepsDecoder
from stream_guard_formats.files.agentlog import AgentlogDecoder
from stream_guard_formats.files.atif import AtifDecoder
from stream_guard_formats.files.claude_code import ClaudeCodeDecoder, ClaudeStreamJsonDecoder
from stream_guard_formats.files.codex_rollout import CodexRolloutDecoder
from stream_guard_formats.files.copilot_sessions import CopilotDecoder
from stream_guard_formats.files.inspect_logs import InspectDecoder
from stream_guard_formats.files.kimi_sessions import KimiDecoder
from stream_guard_formats.files.openhands import OpenHandsDecoder
from stream_guard_formats.files.pi_sessions import PiDecoder
from stream_guard_formats.files.step_telemetry import StepTelemetryDecoder
from stream_guard_formats.files.swe_agent import MiniSweAgentDecoder, SweAgentDecoder
from stream_guard_formats.files.tau import AgentDojoDecoder, Tau2Decoder, TauBenchDecoder
from stream_guard_formats.native.cloudevents import CloudEventsDecoder
from stream_guard_formats.native.decoder import NativeDecoder
from stream_guard_formats.spans.flat_spans import FlatSpansDecoder, OpenInferenceDecoder
from stream_guard_formats.spans.langfuse import LangfuseDecoder
from stream_guard_formats.spans.langsmith import LangSmithDecoder
from stream_guard_formats.spans.otlp_json import OtlpJsonDecoder

# Where two are equally sure that a record is theirs, the first one reads it.
BUILT_IN: Final[Mapping[str, type[Decoder]]] = {
    "native": NativeDecoder,
    "atif": AtifDecoder,
    "cloudevents": CloudEventsDecoder,
    "otlp-json": OtlpJsonDecoder,
    "langfuse": LangfuseDecoder,
    "langsmith": LangSmithDecoder,
    "agentlog": AgentlogDecoder,
    "tau-bench": TauBenchDecoder,
    "agentdojo": AgentDojoDecoder,
    "tau2": Tau2Decoder,
    "steps": StepTelemetryDecoder,
    "openinference": OpenInferenceDecoder,
    "claude-code": ClaudeCodeDecoder,
    "langchain": LangChainDecoder,
    "codex-rollout": CodexRolloutDecoder,
    "claude-stream-json": ClaudeStreamJsonDecoder,
    "openai-responses": OpenAIResponsesDecoder,
    "openai-chat": OpenAIChatDecoder,
    "inspect": InspectDecoder,
    "anthropic": AnthropicDecoder,
    "flat-spans": FlatSpansDecoder,
    "openhands": OpenHandsDecoder,
    "swe-agent": SweAgentDecoder,
    "mini-swe-agent": MiniSweAgentDecoder,
    "pi": PiDecoder,
    "copilot": CopilotDecoder,
    "kimi": KimiDecoder,
    "ag2": AgentChatDecoder,
    "action-steps": ActionStepsDecoder,
}
# Files of these formats hold many sorts of lines, and get new ones with every version of their program.
LINES_OF_SESSIONS: Final = frozenset(
    ("claude-code", "claude-stream-json", "codex-rollout", "openhands", "pi", "copilot", "kimi")
)
