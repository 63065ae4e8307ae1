"""A tool does not return the same again and again."""

from __future__ import annotations

from typing import Final

from pydantic import Field

import stream_guard as sg
from stream_guard_rules.shared.cycles import AGAIN_DESCRIPTION, Again, is_due
from stream_guard_rules.shared.json_values import short_digest
from stream_guard_rules.shared.lost_memory import FORGOTTEN, evict_oldest, was_forgotten
from stream_guard_rules.shared.params import LARGEST_COUNT

_MOST_TOOLS: Final = 32


class NoRepeatedResultsParams(sg.Params):
    """Parameters of ``no_repeated_results``."""

    tool: sg.ToolPattern = Field(
        default=sg.ToolPattern("*"), description="the tools whose results are compared, each with its own"
    )
    times: int = Field(default=4, ge=2, le=1000, description="equal results in a row that are a loop")
    again: Again = Field(default="doubling", description=AGAIN_DESCRIPTION)


class NoRepeatedResultsState(sg.State):
    """For each tool the digest of its latest result, and how often it came in a row."""

    latest: dict[str, tuple[str, int]] = {}
    forgotten: sg.Sketch | None = None


class NoRepeatedResults(sg.Rule[NoRepeatedResultsParams, NoRepeatedResultsState]):
    """A tool must not return the same again and again, whatever it is called with.

    Whether it succeeded counts as part of the result. A blocked attempt has none. The latest 32 tools are remembered;
    the next result of one that was forgotten could not be judged.
    """

    kind = "no_repeated_results"
    state_limit = 4096
    examples = (
        sg.Example(
            claim="the fourth equal result of a tool is a hit",
            params={},
            trace=[{"result": "fetch", "output": "page not found"}] * 5,
            hits=[3],
        ),
        sg.Example(
            claim="a result that differs begins a new count, and each tool has its own",
            params={"times": 2},
            trace=[
                {"result": "fetch", "output": "a"},
                {"result": "list", "output": "a"},
                {"result": "fetch", "output": "b"},
                {"result": "fetch", "output": "a"},
            ],
            hits=[],
        ),
    )

    def tools(self) -> sg.ToolPattern:
        """The tools whose results are compared."""
        return self.params.tool

    def needs(self) -> frozenset[sg.Need]:
        """The results."""
        return frozenset(("content",))

    def on_tool_result(self, result: sg.ToolResult, state: NoRepeatedResultsState) -> sg.Verdict:
        """Compare the result with the one before it."""
        if result.status == "blocked":
            return None
        if result.output is None:
            return sg.Unsure("unevaluable", "the output")
        tool, seen = short_digest(result.tool), short_digest([result.status, result.output])
        is_forgotten = tool not in state.latest and was_forgotten(tool, state)
        before, count = state.latest.pop(tool, ("", 0))
        count = min(count + 1, LARGEST_COUNT) if before == seen else 1
        state.latest[tool] = seen, count
        evict_oldest(state.latest, _MOST_TOOLS, state)
        if not is_due(count, self.params.times, self.params.again):
            return FORGOTTEN if is_forgotten else None
        evidence = {"tool": result.tool, "repeats": count}
        return sg.Hit(f"{result.tool} returned the same {count} times in a row", evidence)
