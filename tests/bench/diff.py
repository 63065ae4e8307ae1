"""How long a diff takes, and how it grows: two long sessions, and two trajectories of many calls."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from stream_guard_diff import diff

from stream_guard.diff_axes import DiffAxis
from stream_guard.judge.model import Event, Turn
from stream_guard.registry import Registry

# CPU seconds of Shadow 3.2.5 for two sessions of 10,000 turns, measured on two cores of the size this was written on.
SHADOW_10K: Final = 309.0
GROWTH: Final = Path(__file__).parent / "data" / "diff_growth.json"
TURNS: Final = (1_000, 2_000, 5_000, 10_000)
CALLS: Final = 100_000
_WORDS: Final = [f"word{number}" for number in range(3_000)]


def measure(registry: Registry, *, keep: bool = False) -> dict[str, Any]:
    """Return CPU seconds and peak memory by the number of turns; with ``keep``, write the curve down too."""
    curve = {str(count): _row(count, registry.axes) for count in TURNS}
    calls = _trajectories(registry.axes)
    longest = curve[str(TURNS[-1])]["cpu_seconds"]
    result = {**curve, "calls": calls, "shadow_to_ours": {"times": SHADOW_10K / longest}}
    if keep:
        GROWTH.parent.mkdir(exist_ok=True)
        GROWTH.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def _row(count: int, axes: Mapping[str, type[DiffAxis]]) -> dict[str, float]:
    old, new = _session(count, 1), _session(count, 2)
    began = time.process_time()
    diff(old, new, axes=axes)
    taken = time.process_time() - began
    # A second time: watching every allocation would be counted as time.
    tracemalloc.start()
    diff(old, new, axes=axes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "cpu_seconds": round(taken, 3),
        "us_per_turn": round(taken / count * 1e6, 1),
        "peak_mb": round(peak / 1e6, 1),
    }


def _session(count: int, seed: int) -> list[Event]:
    """A session whose words all differ from the other side's, and one argument in ten: nothing to hold on to."""
    words, tools = random.Random(seed), random.Random(0)
    return [
        Turn(
            session_id="long",
            event_id=str(number),
            request={"model": "m"},
            response={
                "content": [
                    {"type": "text", "text": " ".join(words.choices(_WORDS, k=30))},
                    {
                        "type": "tool_use",
                        "name": tools.choice("abcdef"),
                        "input": {"n": number if words.random() < 0.9 else -number},
                    },
                ],
                "stop_reason": "tool_use",
                "latency_ms": words.randrange(1_000),
                "usage": {"output_tokens": words.randrange(300)},
            },
        )
        for number in range(count)
    ]


def _trajectories(axes: Mapping[str, type[DiffAxis]]) -> dict[str, float]:
    """Two sessions of 1,000 turns with 100 calls each, of which one in ten is another one."""

    def side(seed: int) -> list[Event]:
        drawn = random.Random(seed)
        return [
            Turn(
                session_id="calls",
                event_id=str(turn),
                response={
                    "content": [
                        {
                            "type": "tool_use",
                            "name": f"t{call % 7}",
                            "input": {"n": turn if drawn.random() < 0.9 else seed},
                        }
                        for call in range(CALLS // 1_000)
                    ]
                },
            )
            for turn in range(1_000)
        ]

    old, new = side(1), side(2)
    began = time.process_time()
    diff(old, new, axes=axes)
    return {"calls": float(CALLS), "cpu_seconds": round(time.process_time() - began, 3)}
