"""The events that rules see: copies of those that came in, with what the session adds to them.

That is the index of the turn, the number of the attempt, and what a turn, a decision or a result gets from elsewhere.
The event that came in stays as it is: whoever made it may feed it again, to another table too.
"""

from __future__ import annotations

from msgspec.structs import replace

from stream_guard.engine.names import SeenName
from stream_guard.model import GateDecision, Json, ToolCall, ToolResult, Turn
from stream_guard.sessions.stored import OpenCall


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


def call_in(
    turn: Turn, number: int, tool: str, call_id: str, args: Json, parse_error: bool, contested: str, opened: OpenCall
) -> ToolCall:
    """Return the call that a block of a turn announces; its arguments may have been read from a text."""
    return ToolCall(
        session_id=turn.session_id,
        event_id=f"{turn.event_id}/{number}",
        time=turn.time,
        trace_id=turn.trace_id,
        run_id=turn.run_id,
        agent=turn.agent,
        agent_path=turn.agent_path,
        counts_as=turn.counts_as,
        labels=turn.labels,
        part=turn.part,
        captured=turn.captured,
        tool=tool,
        call_id=call_id,
        args=args,
        parse_error=parse_error,
        contested=contested,
        index=opened.index,
        attempt=opened.attempt,
    )


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
