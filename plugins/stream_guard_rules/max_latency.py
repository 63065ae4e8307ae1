"""No response takes longer than the limit."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.json_values import number


class MaxLatencyParams(sg.Params):
    """Parameters of ``max_latency``."""

    max_ms: int = Field(gt=0, description="milliseconds that are still fine")


class MaxLatency(sg.Rule[MaxLatencyParams, sg.NoState]):
    """No response may take longer than ``max_ms`` milliseconds.

    The time is the response's ``latency_ms``. Where the source does not give it, the rule cannot judge.
    """

    kind = "max_latency"
    examples = (
        sg.Example(
            claim="a response that took longer is a hit",
            params={"max_ms": 1000},
            trace=[{"turn": "a", "response": {"latency_ms": 1000.4}}],
            hits=[0],
        ),
        sg.Example(
            claim="the limit itself is fine",
            params={"max_ms": 1000},
            trace=[{"turn": "a", "response": {"latency_ms": 1000}}],
            hits=[],
        ),
    )

    def on_turn(self, turn: sg.Turn, _state: sg.NoState) -> sg.Hit | sg.Unsure | None:
        """Compare the time with the limit."""
        taken = turn.response.get("latency_ms")
        milliseconds = number(taken)
        if milliseconds is None:
            return sg.Unsure("unevaluable", "latency_ms")
        if milliseconds <= self.params.max_ms:
            return None
        shown = _rounded(milliseconds, self.params.max_ms)
        evidence = {"latency_ms": taken, "max_ms": self.params.max_ms}
        return sg.Hit(
            f"the response took {shown} ms, and {self.params.max_ms:,} are allowed",
            evidence,
        )

    def shortfall(self, event: sg.Event, _state: sg.NoState) -> sg.Shortfall | None:
        """How long it took."""
        taken = number(event.response.get("latency_ms")) if isinstance(event, sg.Turn) else None
        if taken is None:
            return None
        return sg.Shortfall(f"{taken:,.10g} ms of {self.params.max_ms:,}", taken / (self.params.max_ms + 1))


def _rounded(taken: float, limit: int) -> str:
    """Return the milliseconds in as few digits as show that they are over the limit."""
    forms = (f"{taken:,.{digits}f}".removesuffix(".0") for digits in (1, 2, 3))
    return next((shown for shown in forms if float(shown.replace(",", "")) > limit), f"{taken:,.10g}")
