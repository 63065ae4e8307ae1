"""The agent that is driven: what can be asked of it, whatever it is."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from stream_guard.errors import StreamGuardError

STATEFUL: Final = (
    "Warning: No reset_endpoint configured. Contract matrix cells may share state. Results may be contaminated. "
    "Add reset_endpoint to your config for accurate isolation."
)
RESET_SECONDS: Final = 5.0


class ResetError(StreamGuardError):
    """The agent could not be brought back to a clean state, so what comes next would prove nothing."""


class AgentError(StreamGuardError):
    """There is no agent where one should be."""


class Answer(msgspec.Struct):
    """What the agent answered, or why it did not."""

    text: str
    latency_ms: float
    error: str = ""


class Agent(Protocol):
    """What can be asked and reset."""

    can_reset: bool

    def check(self) -> None:
        """Raise AgentError when nobody is there to be asked; before a run, that is no failure of the agent's."""

    def ask(self, prompt: str) -> Answer:
        """Return the answer; whatever the agent does, it is an answer or an error in one."""

    def reset(self) -> None:
        """Bring the agent back to a clean state, or raise ResetError."""

    def close(self) -> None:
        """Release what is open."""
