"""How rules about whether there is an answer are written, and what they remember."""

from __future__ import annotations

from pydantic import Field

import stream_guard as sg


class WaitingState(sg.State):
    """Whether somebody asked and has had no answer yet."""

    waiting: bool = False


class MaxLatencyParams(sg.Params):
    """Parameters of ``max_latency``."""

    max_ms: int = Field(gt=0, description="milliseconds that are still fine")
