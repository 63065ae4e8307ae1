"""A guard that replays: its clock stands at the time of each recorded event, so that it judges as the stream does."""

from __future__ import annotations

from typing import Any

from stream_guard.guard.clocks import ReplayClock
from stream_guard.guard.inline import Guard
from stream_guard.judge.model import Decision, Event, Finding, ToolCall
from stream_guard.judge.spec import Policy


class ReplayingGuard:
    """A guard whose clock goes by the events that it is told and asked about."""

    def __init__(self, policy: Policy, **options: Any) -> None:
        self._clock = ReplayClock()
        self.guard = Guard(policy, clock=self._clock, **options)

    def check(self, attempt: ToolCall) -> Decision:
        """Decide on an attempt at the time that stands on it."""
        self._clock.now = attempt.time
        return self.guard.check(attempt)

    def observe(self, event: Event) -> list[Finding]:
        """Fold an event at the time that stands on it."""
        self._clock.now = event.time
        return self.guard.observe(event)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.guard, name)
