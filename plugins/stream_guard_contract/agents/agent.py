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
    is_overdue: bool = False  # it did not come in time, which is a verdict of its own


def overdue_answer(seconds: float) -> AgentAnswer:
    """Return the answer of an agent that gave none in this time."""
    spent_ms = seconds * 1000
    return AgentAnswer("", spent_ms, f"the agent did not answer in {spent_ms:.0f} ms", is_overdue=True)


class DrivenAgent(Protocol):
    """An agent that can be asked and reset."""

    can_reset: bool

    def check(self) -> None:
        """Raise AgentError when the agent cannot be reached; called once before a run."""

    def ask(self, prompt: str, delay: float = 0.0) -> AgentAnswer:
        """Return the answer; a failure of the agent is an answer with ``error``, never an exception.

        ``delay`` is what faults may cost the agent, in seconds. It is given on top of ``agent.timeout``: which of the
        two ends first must not be left to chance.
        """

    def reset(self) -> None:
        """Bring the agent back to a clean state, or raise ResetError."""

    def close(self) -> None:
        """Release connections and threads."""
