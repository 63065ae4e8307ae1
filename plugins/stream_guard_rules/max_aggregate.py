"""A measure over many events stays under a threshold: count, sum, average, percentile, ratio, growth."""

from __future__ import annotations

from bisect import bisect_right, insort
from math import ceil
from typing import Final, Literal, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

import stream_guard as sg
from stream_guard_rules.shared.fingerprints import fingerprint
from stream_guard_rules.shared.json_values import digest, number

Measured: TypeAlias = Literal["count", "distinct", "sum", "average", "percentile", "ratio", "growth"]
MeasuredEvent: TypeAlias = Literal["call", "result", "turn", "user"]

MOST_SAMPLES: Final = 2000
_NEEDS_PATH: Final = frozenset(("distinct", "sum", "average", "percentile"))
_HANDLERS: Final = {
    "call": "on_tool_call",
    "result": "on_tool_result",
    "turn": "on_turn",
    "user": "on_user_message",
}


class MaxAggregateParams(sg.Params):
    """Parameters of ``max_aggregate``."""

    of: MeasuredEvent = Field(default="call", description="what is measured: calls, results, turns or user messages")
    tool: sg.ToolPattern | None = Field(default=None, description="of which tools: a name, a glob, a class, or a list")
    measure: Measured = Field(
        default="count",
        description="count, distinct values, sum, average, percentile, the ratio of events that meet `where`, or "
        "growth: events of this window as a multiple of those of the one before",
    )
    path: sg.Path | None = Field(
        default=None, description="the value: tool.args.x, tool.result.latency_ms, response.usage.x"
    )
    where: sg.Condition | None = Field(
        default=None, description="what a ratio counts: conditions over the event itself"
    )
    percentile: float = Field(default=95.0, gt=0, le=100, description="which percentile, by nearest rank")
    window_seconds: sg.Duration | None = Field(
        default=None, description="length of the window, which is half-open; without it, all events of the key"
    )
    over: float = Field(allow_inf_nan=False, description="the measure must not be greater than this")
    warn_over: float | None = Field(
        default=None, allow_inf_nan=False, description="a soft threshold below it: a hit whose evidence says `soft`"
    )
    min_sample: int = Field(default=1, ge=1, le=MOST_SAMPLES, description="events that there must be to judge")
    again: Literal["each", "crossing"] = Field(
        default="each", description="fire at each event over the threshold, or only at the one that passes it"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> MaxAggregateParams:
        if (self.measure in _NEEDS_PATH) is not (self.path is not None):
            raise PydanticCustomError("path", '"path" is for distinct, sum, average and percentile, and they need it')
        if (self.measure == "ratio") is not (self.where is not None):
            raise PydanticCustomError("where", '"where" is for a ratio, and a ratio needs it')
        if self.measure == "growth" and self.window_seconds is None:
            raise PydanticCustomError("window_seconds", 'growth compares two windows; write "window_seconds"')
        if self.warn_over is not None and self.warn_over >= self.over:
            raise PydanticCustomError("warn_over", '"warn_over" must be smaller than "over"')
        if self.measure in {"count", "distinct"} and not -1 < self.over < MOST_SAMPLES:
            message = "at most {most} events are remembered; write a threshold from 0 to there"
            raise PydanticCustomError("over", message, {"most": MOST_SAMPLES})
        return self


class MaxAggregateState(sg.State):
    """The events of the window, oldest first: time and value; and how far over the threshold the last was."""

    samples: list[tuple[float, float]] = []
    level: int = 0


class MaxAggregate(sg.Rule[MaxAggregateParams, MaxAggregateState]):
    """A number over many events must not pass a threshold: count, distinct, sum, average, percentile, ratio, growth.

    With a ``key`` without ``session`` it spans sessions: ``[agent]``, ``[tool]``, ``[labels.tenant]``. The window goes
    by event time. Averages, percentiles, ratios and growth are those of the latest 2000 events of it. A sum is that of
    all: beyond 2000 events, amounts leave the window later than they came, and never earlier.
    """

    kind = "max_aggregate"
    state_limit = 65536
    examples = (
        sg.Example(
            claim="more different recipients than allowed are a hit",
            params={"tool": "send", "measure": "distinct", "path": "tool.args.to", "over": 2, "window_seconds": 600},
            trace=[{"call": "send", "args": {"to": to}, "at": at} for at, to in enumerate(["a", "b", "a", "c"])],
            hits=[3],
        ),
        sg.Example(
            claim="more failures than successes are a hit once there are enough results",
            params={
                "of": "result",
                "measure": "ratio",
                "where": {"path": "tool.result.status", "op": "==", "value": "error"},
                "over": 0.5,
                "min_sample": 3,
                "window_seconds": 300,
            },
            trace=[
                {"result": "api", "status": "error", "at": 0},
                {"result": "api", "status": "error", "at": 1},
                {"result": "api", "at": 2},
            ],
            hits=[2],
        ),
        sg.Example(
            claim="a sum over the threshold is a hit, softly at first",
            params={"of": "turn", "measure": "sum", "path": "response.usage.cost_usd", "over": 5, "warn_over": 3}
            | {"window_seconds": 60, "again": "crossing"},
            trace=[
                {"turn": "a", "usage": {"cost_usd": 2}, "at": 0},
                {"turn": "b", "usage": {"cost_usd": 2}, "at": 10},
                {"turn": "c", "usage": {"cost_usd": 2}, "at": 20},
                {"turn": "d", "usage": {"cost_usd": 2}, "at": 59},
            ],
            hits=[1, 2],
        ),
        sg.Example(
            claim="what has left the window does not count",
            params={"tool": "send", "over": 1, "window_seconds": 60},
            trace=[{"call": "send", "at": 0}, {"call": "send", "at": 60}],
            hits=[],
        ),
    )

    def __init__(self, params: MaxAggregateParams) -> None:
        super().__init__(params)
        # "More than n" needs the newest n + 1, whatever came before them.
        needed = max(int(params.over) + 1, params.min_sample)
        self._most = needed if params.measure in {"count", "distinct"} else MOST_SAMPLES

    def handlers(self) -> list[str]:
        """That of the events that are measured."""
        return [_HANDLERS[self.params.of]]

    def tools(self) -> sg.ToolPattern | None:
        """The tools that are measured."""
        return self.params.tool

    def needs(self) -> frozenset[sg.Need]:
        """A clock for a window, content where the value or the condition reads it."""
        params = self.params
        paths = [
            *([params.path] if params.path else []),
            *(leaf.path for leaf in (params.where.leaves if params.where else ())),
        ]
        content: frozenset[sg.Need] = frozenset(("content",) if any(path.reads_content for path in paths) else ())
        return content | frozenset(("clock",) if params.window_seconds is not None else ())

    def on_tool_call(self, call: sg.ToolCall, state: MaxAggregateState) -> sg.Verdict:
        """Measure the call."""
        return self._measure(call, state)

    def on_tool_result(self, result: sg.ToolResult, state: MaxAggregateState) -> sg.Verdict:
        """Measure the result."""
        return self._measure(result, state)

    def on_turn(self, turn: sg.Turn, state: MaxAggregateState) -> sg.Verdict:
        """Measure the turn."""
        return self._measure(turn, state)

    def on_user_message(self, message: sg.UserMessage, state: MaxAggregateState) -> sg.Verdict:
        """Measure the message."""
        return self._measure(message, state)

    def _measure(self, event: sg.Event, state: MaxAggregateState) -> sg.Verdict:
        value = self._value(event)
        if isinstance(value, sg.Unsure) or value is None:
            return value
        now = event.time if event.time is not None and self.params.window_seconds is not None else 0.0
        self._add(now, value, state)
        number = self._number(now, state)
        if number is None:
            return None
        params = self.params
        soft = params.warn_over is not None and params.warn_over < number <= params.over
        level, before = (2 if number > params.over else 1 if soft else 0), state.level
        state.level = level
        if level == 0 or (params.again == "crossing" and level <= before):
            return None
        evidence = {
            "measure": params.measure,
            "value": round(number, 6),
            "limit": params.over,
            "sample": len(state.samples),
        }
        return sg.Hit(
            f"{params.measure} is {number:g}, {params.over:g} is allowed", evidence | ({"soft": True} if soft else {})
        )

    def _value(self, event: sg.Event) -> float | sg.Unsure | None:
        """Return what the event adds; None where it has no such value."""
        params = self.params
        if params.where is not None:
            if any(leaf.path.lacks is not None and leaf.path.lacks(event) for leaf in params.where.leaves):
                return sg.Unsure("unevaluable", "a field that it counts by")
            return float(params.where.holds(event))
        if params.path is None:
            return 1.0
        found = params.path.find(event)
        if found is sg.MISSING or found is None:
            lacking = params.path.lacks is not None and params.path.lacks(event)
            return sg.Unsure("unevaluable", "the value that it measures") if lacking else None
        if params.measure == "distinct":
            return float(fingerprint(digest(found)) >> 4)  # 52 bits: a float holds them
        value = number(found)
        return sg.Unsure("type_mismatch") if value is None else value

    def _add(self, now: float, value: float, state: MaxAggregateState) -> None:
        samples = state.samples
        if self.params.measure == "distinct":
            # Only the latest of equal values can matter.
            samples[:] = [one for one in samples if one[1] != value or one[0] > now]
        if not samples or samples[-1][0] <= now:
            samples.append((now, value))
        else:
            insort(samples, (now, value), key=lambda one: one[0])
        if self.params.measure == "sum" and len(samples) > self._most:
            self._join_oldest(now, samples)
        del samples[: -self._most]

    def _join_oldest(self, now: float, samples: list[tuple[float, float]]) -> None:
        """Add the oldest amount to the next, so that no sum comes out smaller; what lowers it is left out."""
        (_, oldest), (later, amount) = samples[:2]
        if oldest > 0 or self.params.window_seconds is None:
            samples[1] = (max(samples[0][0], min(later, now)), oldest + amount)

    def _number(self, now: float, state: MaxAggregateState) -> float | None:
        """Return the measure of the window that ends now; None where there are too few events."""
        span, samples = self.params.window_seconds, state.samples
        if self.params.measure == "growth" and span is not None:
            del samples[: bisect_right(samples, now - 2 * span, key=lambda one: one[0])]
            before = bisect_right(samples, now - span, key=lambda one: one[0])
            return (len(samples) - before) / before if before >= self.params.min_sample else None
        if span is not None:
            # Half-open: an event exactly so old has left the window.
            del samples[: bisect_right(samples, now - span, key=lambda one: one[0])]
        values = [value for time, value in samples if time <= now]
        return self._summary(values) if len(values) >= self.params.min_sample else None

    def _summary(self, values: list[float]) -> float:
        measure = self.params.measure
        if measure == "count":
            return float(len(values))
        if measure == "distinct":
            return float(len(set(values)))
        if measure == "percentile":
            return sorted(values)[ceil(self.params.percentile / 100 * len(values)) - 1]
        return sum(values) if measure == "sum" else sum(values) / len(values)
