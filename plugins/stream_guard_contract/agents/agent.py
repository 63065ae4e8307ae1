"""The protocol of an agent that a run drives, its answer, and its errors."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from stream_guard import StreamGuardError

STATEFUL: Final = (
    "Warning: No reset_endpoint configured. Contract matrix cells may share state. Results may be contaminated. "
    "Add reset_endpoint to your config for accurate isolation."
)
RESET_SECONDS: Final = 5.0


class ResetError(StreamGuardError):
    """The agent could not be reset, so the next session would not start from a clean state."""


class AgentError(StreamGuardError):
    """The agent cannot be reached before the run starts."""


class AgentAnswer(msgspec.Struct):
    """The agent's answer, or the reason why there is none."""

    text: str
    latency_ms: float
    error: str = ""


class DrivenAgent(Protocol):
    """An agent that can be asked and reset."""

    can_reset: bool

    def check(self) -> None:
        """Raise AgentError when the agent cannot be reached; called once before a run."""

    def ask(self, prompt: str) -> AgentAnswer:
        """Return the answer; a failure of the agent is an answer with ``error``, never an exception."""

    def reset(self) -> None:
        """Bring the agent back to a clean state, or raise ResetError."""

    def close(self) -> None:
        """Release connections and threads."""
