"""How ``tool_guard`` is written, and what it remembers."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shapes.counters import counters_of
from stream_guard_rules.shapes.predicates import MOST_IN_WINDOW, When

_MOST_COUNTERS: Final = 16


class ToolGuardParams(sg.Params):
    """Parameters of ``tool_guard``."""

    when: When = Field(description="predicates over the attempt, all of which must hold; without any it matches none")
    enforce_window: Literal["followup", "inline"] = Field(
        default="followup",
        description="where call_count_in_window_gt counts: on the follow-up path only, or in the inline gate as well",
    )
    coerce: bool = Field(default=False, description="comparisons also take a text that reads as a number")

    @model_validator(mode="after")
    def _fits(self) -> ToolGuardParams:
        counters = counters_of(self.when)
        if len(counters) > _MOST_COUNTERS:
            message = "counts {found} things, {most} at most; split the rule"
            raise PydanticCustomError("counters", message, {"found": len(counters), "most": _MOST_COUNTERS})
        if sum(counter.most for counter in counters) > MOST_IN_WINDOW + 1:
            message = "its windows would have to remember more than {most} attempts; split the rule"
            raise PydanticCustomError("windows", message, {"most": MOST_IN_WINDOW})
        return self


class Attempts(sg.State):
    """What was counted: in the session, in each run, and when in each window, counter by counter."""

    session: list[int] = []
    runs: dict[str, list[int]] = {}
    windows: list[list[float]] = []
