"""The events that rules see: copies of those that came in, with what the session adds to them.

That is the index of the turn, the number of the attempt, and what a turn, a decision or a result gets from elsewhere.
The event that came in stays as it is: whoever made it may feed it again, to another table too.
"""

from __future__ import annotations

from msgspec.structs import replace

from stream_guard.judge.model import GateDecision, Json, ToolCall, ToolResult, Turn
from stream_guard.judge.names import SeenName
from stream_guard.judge.stored import OpenCall


def stamped_turn(turn: Turn, index: int, names: dict[str, SeenName | None]) -> tuple[Turn, list[dict[str, Json]]]:
    """Return a turn with its index, its text in one piece and the names of its tools; and its tool-use blocks."""
    content = turn.response.get("content")
    text = content if type(content) is str else ""
    blocks: list[dict[str, Json]] = []
    tools: list[str] = []
    for block in content if type(content) is list else ():
        kind = block.get("type") if type(block) is dict else None
        if kind == "text":
            piece = block.get("text")
            if type(piece) is str:
                text = f"{text}\n{piece}" if text else piece
        elif kind == "tool_use":
            blocks.append(block)
            written = block.get("name")
            written = written if type(written) is str else ""
            name = names[written]
            tools.append(written if name is None else name.tool)
    return replace(turn, index=index, text=text, tools=tuple(tools)), blocks


def call_in(turn: Turn, number: int, tool: str, call_id: str, args: Json, opened: OpenCall) -> ToolCall:
    """Return the call that a block of a turn announces."""
    # With more than fifteen names in a call, Python makes a dict of them, which takes five times as long.
    call = ToolCall(
        session_id=turn.session_id,
        event_id=f"{turn.event_id}/{number}",
        time=turn.time,
        run_id=turn.run_id,
        agent=turn.agent,
        labels=turn.labels,
        tool=tool,
        call_id=call_id,
        args=args,
        index=opened.index,
        attempt=opened.attempt,
    )
    trace_id, agent_path, part, counts_as = turn.trace_id, turn.agent_path, turn.part, turn.counts_as
    if trace_id or agent_path or part or counts_as or not turn.captured:
        call = replace(
            call, trace_id=trace_id, agent_path=agent_path, part=part, counts_as=counts_as, captured=turn.captured
        )
    return call


def stamped_call(call: ToolCall, opened: OpenCall) -> ToolCall:
    """Return a call with the number of the attempt that it is."""
    return replace(call, index=opened.index, attempt=opened.attempt)


def stamped_result(result: ToolResult, call: OpenCall | None, turns: int) -> ToolResult:
    """Return a result with the number, the tool and the arguments of the attempt that it answers, if there was one."""
    if call is None:
        return replace(result, index=turns - 1, attempt=-1, args=None)
    return replace(result, index=call.index, attempt=call.attempt, args=call.args, tool=result.tool or call.tool)


def stamped_decision(decision: GateDecision, call: OpenCall | None, turns: int) -> GateDecision:
    """Return the decision on an attempt with the number, the tool and the arguments of it, if it is known."""
    if call is None:
        return replace(decision, index=turns - 1, attempt=-1, args=None)
    return replace(decision, index=call.index, attempt=call.attempt, args=call.args, tool=decision.tool or call.tool)
